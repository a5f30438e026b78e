/** Fetches one commit of a repository that nobody has reason to trust. Nothing of it is ever checked out on the host. */
import { mkdir } from 'node:fs/promises'
import type { BuildPut } from '../../contract/agent.ts'
import { run } from '../../lib/exec.ts'
import { type CheckedUrl, checkUrl } from './address.ts'
import { BuildFault } from './fault.ts'

export type Source = BuildPut['spec']['source']

export interface Commit {
  readonly branch: string
  readonly hash: string
  readonly message: string
}

export interface Repository {
  readonly commit: Commit
  /** Names at the top of the tree, and of the directories that were asked for. */
  list(dir?: string): Promise<string[]>
  /** Undefined when there is no such file. At most 1 MiB. */
  read(path: string): Promise<string | undefined>
  /** The whole tree as a tar archive. */
  archive(file: string): Promise<void>
}

export interface FetchLimits {
  /** Of each file that git writes; more ends it. */
  readonly maxBytes: number
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * A bare repository in `dir` with the wanted commit. No hooks, no other transport than the one of the URL, no redirects,
 * no credential helpers, no configuration of this machine; the address that was checked is the one that is used.
 * @throws BuildFault when there is no such repository, branch or commit, or it may not be reached
 */
export async function fetchSource(source: Source, dir: string, limits: FetchLimits): Promise<Repository> {
  const url = await checkUrl(source.url, source.allowPrivate)
  const git = gitIn(dir, environment(source, url), limits)
  await mkdir(dir, { recursive: true, mode: 0o700 })
  await git(['init', '--bare', '--quiet', dir])
  const branch = source.branch || (await defaultBranch(git, url))
  const hash = await fetchCommit(git, url, branch, source.commit)
  const message = await git(['show', '--no-patch', '--format=%B', hash])
  return {
    commit: { branch, hash, message: message.trim().slice(0, 2000) },
    list: async (path = '') => {
      const names = await git(['ls-tree', '-z', '--name-only', path === '' ? hash : `${hash}:${path}`]).catch(() => '')
      return names.split('\0').filter(name => name !== '')
    },
    read: async path => {
      const size = Number(await git(['cat-file', '-s', `${hash}:${path}`]).catch(() => Number.NaN))
      return size <= 1 << 20 ? git(['cat-file', 'blob', `${hash}:${path}`]) : undefined
    },
    archive: async file => {
      await git(['archive', '--format=tar', '-o', file, hash]).catch((cause: unknown) => {
        throw tooLarge.test(String(cause)) ? new BuildFault('The source is larger than it may be.', { cause }) : cause
      })
    },
  }
}

type Git = (args: readonly string[]) => Promise<string>

/** `prlimit` ends git with SIGXFSZ when a pack grows too large: a small repository can announce a huge one. */
function gitIn(dir: string, env: Readonly<Record<string, string>>, { maxBytes, timeoutMs, signal }: FetchLimits): Git {
  return args =>
    run('prlimit', [`--fsize=${maxBytes}`, '--', 'git', '--git-dir', dir, ...args], {
      cwd: '/',
      env,
      timeoutMs,
      signal,
    })
}

/** By environment: neither arguments nor files ever hold the credential. */
function environment({ auth }: Source, { scheme, resolve }: CheckedUrl): Record<string, string> {
  const settings: Array<readonly [string, string]> = [
    ['protocol.allow', 'never'],
    [`protocol.${scheme}.allow`, 'always'],
    ['http.followRedirects', 'false'],
    ['http.curloptResolve', resolve],
    ['http.lowSpeedLimit', '1000'],
    ['http.lowSpeedTime', '30'],
    ['core.hooksPath', '/dev/null'],
    ['core.fsmonitor', 'false'],
    ['credential.helper', ''],
    ['fetch.recurseSubmodules', 'false'],
    ['transfer.fsckObjects', 'true'],
  ]
  if (auth) {
    const basic = Buffer.from(`${auth.username}:${auth.password}`).toString('base64')
    settings.push(['http.extraHeader', `Authorization: Basic ${basic}`])
  }
  const numbered = settings.flatMap(([key, value], n) => [
    [`GIT_CONFIG_KEY_${n}`, key],
    [`GIT_CONFIG_VALUE_${n}`, value],
  ])
  return {
    ...Object.fromEntries(numbered),
    ...{ GIT_CONFIG_COUNT: String(settings.length), GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' },
    ...{ GIT_TERMINAL_PROMPT: '0', GIT_ASKPASS: '/bin/false', GIT_OPTIONAL_LOCKS: '0', HOME: '/nonexistent' },
  }
}

async function defaultBranch(git: Git, { href }: CheckedUrl): Promise<string> {
  const text = await git(['ls-remote', '--symref', '--', href, 'HEAD']).catch(unreachable(href))
  const branch = /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(text)?.[1]
  if (branch === undefined) throw new BuildFault('The repository has no default branch: push a commit first.')
  return branch
}

/** Hosts need not give single commits; then the branch is looked through, fifty commits back. */
async function fetchCommit(git: Git, { href }: CheckedUrl, branch: string, wanted: string): Promise<string> {
  const fetch = (depth: number, what: string) =>
    git(['fetch', '--quiet', `--depth=${depth}`, '--no-tags', '--', href, `+${what}:refs/mote/wanted`])
  const resolved = () => git(['rev-parse', '--verify', '--quiet', `${wanted || 'refs/mote/wanted'}^{commit}`])
  const alone = wanted !== '' && (await fetch(1, wanted).then(...yesNo))
  if (!alone) await fetch(wanted === '' ? 1 : 50, `refs/heads/${branch}`).catch(unreachable(href, branch))
  const hash = await resolved().catch(() => {
    throw new BuildFault(`The branch "${branch}" has no commit ${wanted.slice(0, 12)} among its newest.`)
  })
  return hash.trim()
}

/** SIGXFSZ of git itself, or of one of its helpers. */
const tooLarge = /died of signal 25|was killed|File too large/

const yesNo = [() => true, () => false] as const

/** How git's words are told to people. */
const reasons: ReadonlyArray<readonly [sign: RegExp, why: string]> = [
  [tooLarge, 'is larger than a repository may be'],
  [/not found|couldn't find remote ref/i, 'is not there'],
  [
    /Authentication failed|could not read Username|returned error: 40[13]/,
    'may not be read; connect it, or make it public',
  ],
  [/returned error: 30\d/, 'has moved; give its new address'],
]

/** What git says names the address, and never the credential. */
function unreachable(href: string, branch?: string) {
  return (cause: unknown): never => {
    const text = cause instanceof Error ? cause.message : String(cause)
    const what = branch === undefined ? 'The repository' : `The branch "${branch}" of the repository`
    const why = reasons.find(([sign]) => sign.test(text))?.[1] ?? `cannot be fetched (${text.slice(0, 300)})`
    throw new BuildFault(`${what} ${why}: ${href}`, { cause })
  }
}
