/** Settings that the server writes into the page's head (src/control/dashboard/pages.ts). */
const settingOf = (name: string) => document.querySelector(`meta[name="mote-${name}"]`)?.getAttribute('content') ?? ''

const gateway = URL.parse(settingOf('gateway'))

export const isCaptchaAsked = settingOf('captcha') !== 'off'

/** The public URL of an app: its hostname with the scheme and port of the gateway. */
export function addressOf(hostname: string): string {
  if (!gateway) return `http://${hostname}`
  return `${gateway.protocol}//${hostname}${gateway.port ? `:${gateway.port}` : ''}`
}
