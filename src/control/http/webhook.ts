/** What the operations that receive webhooks have in common: the sender has no credential, and signs the body. */
export const webhook = {
  method: 'POST',
  tag: 'Webhooks',
  auth: 'none',
  scope: 'write',
  project: 'none',
  rawBody: true,
  throttle: 'machine',
  bodyRequired: true,
} as const

/** Of an event, unless its sender documents larger ones. What its signature covers has no schema. */
export const maxEventBytes = 1 << 20
