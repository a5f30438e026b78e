/**
 * Minimal permissions of each program on a NATS server: a compromised host can act only as itself. Answers to requests
 * are allowed by `allow_responses`, so no program needs permission to publish to foreign inboxes. Answers to a
 * program's own requests arrive below its own inbox prefix, so no program can read the inboxes of others.
 */
import { streams } from './streams.ts'

export type BusRole = { readonly kind: 'host' | 'gateway'; readonly id: string } | { readonly kind: 'control' }

export interface BusPermissions {
  /** User name on the server; the inbox prefix is derived from it. */
  readonly user: string
  readonly inboxPrefix: string
  readonly publish: readonly string[]
  readonly subscribe: readonly string[]
}

export interface BusUser {
  readonly role: BusRole
  /** A bcrypt hash (`$2a$...`, from `nats server passwd`) or the password itself. */
  readonly password: string
}

/** Returns the inbox prefix of a user name, which `connectNatsBus` also uses. */
export function inboxPrefixOf(user: string): string {
  return `_INBOX_${user}`
}

/** @throws RangeError when the id could match subjects of others. */
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

/** Only the calls of `nats-streams.ts` and `nats-reader.ts`, and only for our streams. */
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

/** Returns the entries of these users in the `users` of a nats-server configuration. */
export const natsUsers = (users: readonly BusUser[]): string =>
  users
    .map(({ role, password }) => {
      const { user, publish, subscribe } = permissionsFor(role)
      return [
        `    { user: ${quote(user)}, password: ${quote(password)}, permissions: {`,
        `        publish: { allow: [${publish.map(quote).join(', ')}] }`,
        `        subscribe: { allow: [${subscribe.map(quote).join(', ')}] }`,
        // One answer per request, for as long as the longest request waits.
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
