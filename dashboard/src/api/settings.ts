/** Settings that the server writes into the page's head (src/control/dashboard/pages.ts). */
const settingOf = (name: string) => document.querySelector(`meta[name="mote-${name}"]`)?.getAttribute('content') ?? ''

export const isCaptchaAsked = settingOf('captcha') !== 'off'
