/** Common members of the operations that receive webhooks. The sender has no credential; it signs the body instead. */
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

/**
 * Maximum body size of a webhook, unless its sender documents larger events. It cannot follow from a schema, because
 * the signature covers the unparsed body, which has none.
 */
export const maxEventBytes = 1 << 20
