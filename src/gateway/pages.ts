import { type ClientRequest, type ClientResponse, isHttp2 } from './exchange.ts'

/** Error pages that the gateway itself sends. They contain no data from the app. */
export const pages = {
  not_found: {
    status: 404,
    title: 'No app at this address',
    text: 'No app answers at this address. Check the name, or deploy an app: mote launch',
  },
  bad_host: { status: 400, title: 'Which app?', text: 'The request has no valid host name, so it cannot be routed.' },
  starting: {
    status: 503,
    title: 'Not ready',
    text: 'The app has no healthy VM at the moment. Try again in a few seconds.',
  },
  asleep: {
    status: 503,
    title: 'Still waking up',
    text: 'The app was asleep and did not start in time. Try again in a few seconds.',
  },
  bad_gateway: {
    status: 502,
    title: 'The app did not answer',
    text: 'Its VM refused the connection or closed it before it answered.',
  },
  busy: {
    status: 503,
    title: 'Too busy',
    text: 'The app has reached its limit of concurrent requests. Try again in a few seconds.',
  },
  too_many: {
    status: 429,
    title: 'Too many requests',
    text: 'Your address has exceeded its limit of requests. Wait a moment, then try again.',
  },
  timeout: {
    status: 504,
    title: 'The app took too long',
    text: 'Its VM accepted the request and did not answer in time.',
  },
} as const satisfies Record<string, { status: number; title: string; text: string }>

export type Page = keyof typeof pages

/** Responds with an error page. The rest of the client's request body is not read. */
export function sendPage(request: ClientRequest, response: ClientResponse, page: Page): void {
  const { status, title, text } = pages[page]
  const accept = request.headers.accept ?? ''
  const [type, body] = accept.includes('text/html')
    ? ['text/html; charset=utf-8', html(status, title, text)]
    : accept.includes('application/json')
      ? ['application/json', JSON.stringify({ error: text, status, code: page })]
      : ['text/plain; charset=utf-8', `${title}. ${text}\n`]
  const headers = {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-mote-gateway': page,
    ...(status === 503 ? { 'retry-after': '5' } : {}),
    ...(status === 429 ? { 'retry-after': '1' } : {}),
  }
  if (isHttp2(response)) response.writeHead(status, headers)
  else response.writeHead(status, headers)
  response.end(request.method === 'HEAD' ? '' : body)
}

const html = (status: number, title: string, text: string) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${status} ${title}</title>
<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;display:grid;place-content:center;min-height:90vh;margin:0;padding:1rem;text-align:center}
h1{font-size:1.4rem;margin:0 0 .5rem}p{margin:0;max-width:32rem}small{opacity:.6}</style></head>
<body><main><h1>${title}</h1><p>${text}</p><p><small>${status} · mote</small></p></main></body></html>
`
