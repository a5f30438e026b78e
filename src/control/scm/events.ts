/**
 * Parses webhook events of git hosts into one format. Unknown events become `other` and are accepted, because a git
 * host sends refused events again.
 */
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Delivery } from './signature.ts'

export type ScmEvent =
  | { readonly kind: 'ping' }
  | {
      readonly kind: 'push'
      readonly repoId: number | null
      readonly branch: string
      /** Whether the branch is the repository's default branch, which apps follow by default. */
      readonly isDefault: boolean
      readonly commit: string
      readonly message: string
      /** Author of the commit, or who pushed it; empty if the host does not report it. */
      readonly author: string
      /** Time of the push by the host's clock; null if the host does not report it. */
      readonly pushedAt: Date | null
    }
  | {
      readonly kind: 'installation'
      readonly id: number
      readonly state: 'active' | 'suspended' | 'deleted'
      readonly login: string
      readonly accountType: string
      readonly avatarUrl: string | null
      readonly changedAt: Date
    }
  | {
      readonly kind: 'repository'
      readonly id: number
      readonly fullName: string
      readonly cloneUrl: string
      readonly isDeleted: boolean
      readonly changedAt: Date
    }
  | {
      readonly kind: 'pull-request'
      readonly repoId: number
      readonly number: number
      readonly state: 'open' | 'closed'
      readonly branch: string
      readonly commit: string
      readonly title: string
      /** Login of the person who changed the pull request; empty if the host does not report it. */
      readonly author: string
      /** Whether the pull request comes from another repository, whose author may have no permissions in this one. */
      readonly isForeign: boolean
      readonly changedAt: Date
    }
  | { readonly kind: 'other' }

const other = { kind: 'other' } as const
const Id = Type.Integer({ minimum: 1 })
const CommitId = Type.String({ pattern: '^[0-9a-f]{40}([0-9a-f]{24})?$' })

/**
 * Parses the body of a delivery.
 * @param raw JSON, or a form with JSON in the field `payload` (an option of GitHub)
 */
export function parseEvent(delivery: Delivery, raw: Buffer): ScmEvent {
  const payload = parseJson(raw)
  if (delivery.style === 'gitlab') return delivery.event === 'Push Hook' ? gitlabPush(payload) : other
  switch (delivery.event) {
    case 'ping':
      return { kind: 'ping' }
    case 'push':
      return push(payload)
    case 'installation':
      return installation(payload)
    case 'repository':
      return repository(payload)
    case 'pull_request':
      return pullRequest(payload)
    default:
      return other
  }
}

function parseJson(raw: Buffer): unknown {
  const text = raw.toString('utf8')
  const json = (text.startsWith('payload=') ? new URLSearchParams(text).get('payload') : text) ?? ''
  try {
    return isDeeperThan(maxDepth, json) ? undefined : JSON.parse(json)
  } catch {
    return undefined
  }
}

/** Maximum nesting of a delivery. GitHub and GitLab nest up to 5 levels; parsing 500,000 levels takes 50 to 200 ms. */
const maxDepth = 32

const codes = { quote: 0x22, backslash: 0x5c, bracket: 0x5b, bracketEnd: 0x5d, brace: 0x7b, braceEnd: 0x7d } as const

function isDeeperThan(limit: number, json: string): boolean {
  let depth = 0
  let isInString = false
  for (let at = 0; at < json.length; at++) {
    const char = json.charCodeAt(at)
    if (char === codes.quote) isInString = !isInString
    else if (isInString) at += char === codes.backslash ? 1 : 0
    else if (char === codes.bracket || char === codes.brace) {
      if (++depth > limit) return true
    } else if (char === codes.bracketEnd || char === codes.braceEnd) depth--
  }
  return false
}

const read = <S extends TSchema>(schema: S, payload: unknown): Static<S> | undefined =>
  Value.Check(schema, payload) ? payload : undefined

const branchOf = (ref: string) => (ref.startsWith('refs/heads/') ? ref.slice('refs/heads/'.length) : undefined)
const nameOf = (name: string | undefined) => (name ?? '').slice(0, 200)
const isNothing = (commit: string) => /^0+$/.test(commit)

/** Parses a time that is a text in ISO 8601, or a number of seconds since 1970. */
const instant = (value: string | number) => new Date(typeof value === 'number' ? value * 1000 : value)
const Instant = Type.Union([Type.Integer({ minimum: 0 }), Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT' })])

const Push = Type.Object({
  ref: Type.String({ maxLength: 1024 }),
  after: CommitId,
  head_commit: Type.Optional(
    Type.Union([
      Type.Object({ message: Type.String(), author: Type.Optional(Type.Object({ name: Type.String() })) }),
      Type.Null(),
    ]),
  ),
  repository: Type.Object({
    id: Id,
    default_branch: Type.String(),
    pushed_at: Type.Optional(Type.Union([Instant, Type.Null()])),
  }),
})

function push(payload: unknown): ScmEvent {
  const found = read(Push, payload)
  const branch = found && branchOf(found.ref)
  if (!found || branch === undefined || isNothing(found.after)) return other
  const { repository: repo, after, head_commit: head } = found
  return {
    kind: 'push',
    repoId: repo.id,
    branch,
    isDefault: branch === repo.default_branch,
    commit: after,
    message: (head?.message ?? '').slice(0, 2000),
    author: nameOf(head?.author?.name),
    pushedAt: repo.pushed_at == null ? null : instant(repo.pushed_at),
  }
}

const GitlabPush = Type.Object({
  user_name: Type.Optional(Type.String()),
  ref: Type.String({ maxLength: 1024 }),
  after: CommitId,
  commits: Type.Optional(Type.Array(Type.Object({ id: Type.String(), message: Type.String() }))),
  project: Type.Object({ default_branch: Type.String() }),
})

function gitlabPush(payload: unknown): ScmEvent {
  const found = read(GitlabPush, payload)
  const branch = found && branchOf(found.ref)
  if (!found || branch === undefined || isNothing(found.after)) return other
  const message = found.commits?.find(({ id }) => id === found.after)?.message ?? ''
  return {
    kind: 'push',
    repoId: null,
    branch,
    isDefault: branch === found.project.default_branch,
    commit: found.after,
    message: message.slice(0, 2000),
    author: nameOf(found.user_name),
    pushedAt: null,
  }
}

const Installation = Type.Object({
  action: Type.String(),
  installation: Type.Object({
    id: Id,
    updated_at: Instant,
    account: Type.Object({
      login: Type.String(),
      type: Type.String(),
      avatar_url: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    }),
  }),
})
const installationStates = new Map([
  ['created', 'active'],
  ['unsuspend', 'active'],
  ['new_permissions_accepted', 'active'],
  ['suspend', 'suspended'],
  ['deleted', 'deleted'],
] as const)

function installation(payload: unknown): ScmEvent {
  const found = read(Installation, payload)
  const state = [...installationStates].find(([action]) => action === found?.action)?.[1]
  if (!found || state === undefined) return other
  const { id, account, updated_at: at } = found.installation
  return {
    kind: 'installation',
    id,
    state,
    login: account.login,
    accountType: account.type,
    avatarUrl: account.avatar_url ?? null,
    changedAt: instant(at),
  }
}

const RepositoryEvent = Type.Object({
  action: Type.String(),
  repository: Type.Object({
    id: Id,
    full_name: Type.String({ maxLength: 512 }),
    clone_url: Type.String({ maxLength: 2048 }),
    updated_at: Instant,
  }),
})

function repository(payload: unknown): ScmEvent {
  const found = read(RepositoryEvent, payload)
  if (!found || !['renamed', 'transferred', 'deleted', 'edited'].includes(found.action)) return other
  const { id, full_name: fullName, clone_url: cloneUrl, updated_at: at } = found.repository
  return { kind: 'repository', id, fullName, cloneUrl, isDeleted: found.action === 'deleted', changedAt: instant(at) }
}

const PullRequest = Type.Object({
  sender: Type.Optional(Type.Object({ login: Type.String() })),
  number: Type.Integer({ minimum: 1 }),
  pull_request: Type.Object({
    state: Type.Enum(['open', 'closed']),
    title: Type.String(),
    updated_at: Instant,
    head: Type.Object({
      ref: Type.String({ maxLength: 1024 }),
      sha: CommitId,
      repo: Type.Union([Type.Object({ id: Id }), Type.Null()]),
    }),
  }),
  repository: Type.Object({ id: Id }),
})

function pullRequest(payload: unknown): ScmEvent {
  const found = read(PullRequest, payload)
  if (!found) return other
  const { state, title, head, updated_at: at } = found.pull_request
  return {
    kind: 'pull-request',
    repoId: found.repository.id,
    number: found.number,
    state,
    branch: head.ref,
    commit: head.sha,
    title: title.slice(0, 500),
    author: nameOf(found.sender?.login),
    isForeign: head.repo?.id !== found.repository.id,
    changedAt: instant(at),
  }
}
