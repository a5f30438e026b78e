/**
 * Minimal permissions of each program on a NATS server, so that a compromised host can act only as itself.
 * `allow_responses` permits responses to requests, so no program needs permission to publish to the inboxes of others.
 * Responses to a program's own requests arrive below its own inbox prefix, so no program can read the inboxes of
 * others.
 */
import { streams } from './streams.ts'

export type BusRole = { readonly kind: 'host' | 'gateway'; readonly id: string } | { readonly kind: 'control' }

export interface BusPermissions {
  /** User name on the NATS server; also determines the user's inbox prefix. */
  readonly user: string
  readonly inboxPrefix: string
  readonly publish: readonly string[]
  readonly subscribe: readonly string[]
}

export interface BusUser {
  readonly role: BusRole
  /** The password itself, or its bcrypt hash (`$2a$...`, from `nats server passwd`). */
  readonly password: string
}

/** Returns the inbox prefix of a user name. `connectNatsBus` uses the same one. */
export function inboxPrefixOf(user: string): string {
  return `_INBOX_${user}`
}

/**
 * Returns the user name and permissions of a program. @throws RangeError when the id could match the subjects of other
 * programs.
 */
export function permissionsFor(role: BusRole): BusPermissions {
  const user = role.kind === 'control' ? 'control' : `${role.kind}-${tokenOf(role.id)}`
  const inboxPrefix = inboxPrefixOf(user)
  const inbox = `${inboxPrefix}.>`
  switch (role.kind) {
    case 'host':
      return {
        user,
        inboxPrefix,
        publish: [`host.${role.id}.out.>`, `log.${role.id}.>`],
        subscribe: [`host.${role.id}.in.>`, inbox],
      }
    case 'gateway':
      return { user, inboxPrefix, publish: ['control.in.>', 'gateway.out.>'], subscribe: ['route.>', inbox] }
    case 'control':
      return {
        user,
        inboxPrefix,
        publish: ['host.*.in.>', 'route.>', 'event.>', 'control.out.>', ...jetStreamApi()],
        subscribe: ['host.*.out.>', 'control.in.>', 'control.out.>', 'gateway.out.>', 'event.>', inbox],
      }
  }
}

/**
 * Returns the subjects of the JetStream calls in `nats-streams.ts` and `nats-reader.ts`, for the streams in
 * `streams.ts` only.
 */
function jetStreamApi(): string[] {
  const perStream = streams.flatMap(({ name }) => [
    `$JS.API.STREAM.*.${name}`,
    `$JS.API.CONSUMER.CREATE.${name}`,
    `$JS.API.CONSUMER.*.${name}.>`,
    `$JS.API.CONSUMER.MSG.NEXT.${name}.>`,
    `$JS.API.DIRECT.GET.${name}`,
    `$JS.ACK.${name}.>`,
    `$JS.FC.${name}.>`,
  ])
  return ['$JS.API.INFO', ...perStream]
}

/** Returns the entries for these users in the `users` list of a nats-server configuration. */
export const natsUsers = (users: readonly BusUser[]): string =>
  users
    .map(({ role, password }) => {
      const { user, publish, subscribe } = permissionsFor(role)
      return [
        `    { user: ${quote(user)}, password: ${quote(password)}, permissions: {`,
        `        publish: { allow: [${publish.map(quote).join(', ')}] }`,
        `        subscribe: { allow: [${subscribe.map(quote).join(', ')}] }`,
        // The responder may send one response to each request, within the time that the longest request may take.
        '        allow_responses: { max: 1, expires: "2m" }',
        '    } }',
      ].join('\n')
    })
    .join('\n')

/** Returns the `authorization` block of a nats-server configuration for these users. */
export const natsAuthorization = (users: readonly BusUser[]): string =>
  `authorization {\n  users = [\n${natsUsers(users)}\n  ]\n}\n`

function tokenOf(id: string): string {
  if (!/^[A-Za-z0-9_-]+$/.test(id)) throw new RangeError(`not an id for the bus: ${JSON.stringify(id)}`)
  return id
}

/** Quotes text in double quotes, so that the configuration file does not treat `$` as a variable. */
function quote(text: string): string {
  return JSON.stringify(text)
}
