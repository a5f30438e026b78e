/** The two HTML pages of the sandbox: text and forms, no scripts. */
import type { Product } from '../provider.ts'
import type { Action } from './life.ts'
import type { SandboxSubscription } from './store.ts'

const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escape = (text: string) => text.replace(/[&<>"']/g, c => escapes[c] ?? c)

const style =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem}' +
  'button{font:inherit;padding:.4rem 1rem;margin:.2rem .4rem .2rem 0}.note{color:#555}'

const page = (title: string, body: string, backUrl: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>${escape(title)}</h1>
${body}
<p class="note">This is the billing sandbox of Mote. No money is charged. <a href="${escape(backUrl)}">Back</a></p>
</main>
</body>
</html>
`

const button = (action: string, label: string) =>
  `<form method="post"><input type="hidden" name="action" value="${escape(action)}"><button>${escape(label)}</button></form>`

const price = (p: Product) =>
  `${((p.priceAmountCents ?? 0) / 100).toFixed(2)} ${(p.currency ?? '').toUpperCase()} a ${p.recurringInterval ?? 'period'}`

export function checkoutPage(product: Product, isPaid: boolean, backUrl: string): string {
  const what = `<p><strong>${escape(product.name)}</strong>: ${escape(price(product))}</p>`
  const rest = isPaid ? '<p>Paid. You can close this page.</p>' : button('pay', 'Pay')
  return page(isPaid ? 'Thank you' : 'Checkout', what + rest, backUrl)
}

const labels = {
  cancel: 'Cancel at the end of the period',
  resume: 'Do not cancel',
  next: 'Turn the clock to the next period',
  fail: 'Next period, and the payment fails',
  pay: 'Pay what is open',
} as const satisfies Record<Action, string>

function possible({ status, cancelAtPeriodEnd }: SandboxSubscription): readonly Action[] {
  if (status === 'canceled') return []
  return [cancelAtPeriodEnd ? 'resume' : 'cancel', status === 'past_due' ? 'pay' : 'fail', 'next']
}

export function portalPage(
  subscriptions: readonly SandboxSubscription[],
  products: readonly Product[],
  backUrl: string,
): string {
  const body = subscriptions.map(s => {
    const name = products.find(p => p.id === s.productId)?.name ?? s.productId
    const until = s.periodEnd.toISOString().slice(0, 10)
    const ends = s.cancelAtPeriodEnd && s.status !== 'canceled' ? ', will not be renewed' : ''
    const forms = possible(s).map(action => button(`${action} ${s.id}`, labels[action]))
    return `<h2>${escape(name)}</h2><p>${escape(s.status)}, until ${until}${ends}</p>${forms.join('\n')}`
  })
  return page('Your subscriptions', body.join('\n') || '<p>There are none.</p>', backUrl)
}
