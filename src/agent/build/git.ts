/** Fetches one commit of an untrusted repository. The host never checks out its files. */
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { BuildPut } from '../../contract/agent.ts'
import { CommandError } from '../../lib/exec.ts'
import { type CheckedUrl, checkUrl } from './address.ts'
import { BuildFault } from './fault.ts'
import { fitsPlan, keptText } from './plan/project.ts'
import { takeOver, type Worker } from '../worker/worker.ts'
import { certificatesFor, type FetchLimits, type Git, gitEnvironment, gitIn, limited } from './git-run.ts'
import { sshEnvironment } from './ssh.ts'
import { deepestSubmodule, mostSubmodules, submodulesOf } from './submodules.ts'

export type Source = BuildPut['spec']['source']

export interface Commit {
  readonly branch: string
  readonly hash: string
  readonly message: string
}

/** Read access to the source of a build. */
export interface SourceTree {
  /**
   * The commit's time, so that the same commit always gives the same image. For an upload, the time of the download.
   */
  readonly made: Date
  /** Returns the paths of the files. For a very large tree, the list is only complete at the top and in `public`. */
  list(): Promise<readonly string[]>
  /**
   * Returns the text of a file; undefined if the file does not exist or is too large. Of a large lock file, returns the
   * first part.
   */
  read(path: string): Promise<string | undefined>
  /** Writes the whole tree, including submodules, as a tar archive. */
  archive(file: string): Promise<void>
}

export interface Repository extends SourceTree {
  readonly commit: Commit
}

/** A bare repository on this host that contains the commit to build. */
interface Fetched {
  readonly git: Git
  readonly hash: string
  readonly branch: string
  /**
   * Path of this repository in the archive: empty for the main repository, a submodule's path with a trailing slash.
   */
  readonly prefix: string
}

/**
 * Fetches the commit and those of its submodules into bare repositories in the worker's directory. Git is isolated
 * (git-run.ts) and connects to the checked address only.
 * @throws BuildFault when the repository, branch or commit does not exist or is not accessible
 */
export async function fetchSource(source: Source, worker: Worker, limits: FetchLimits): Promise<Repository> {
  try {
    const trusted = await certificatesFor(worker)
    const place: Place = { worker, trusted, dir: 'git', prefix: '' }
    const top = await fetchOne(source, place, limits)
    const below = source.submodules ? await fetchSubmodules(source, top, place, limits, deepestSubmodule) : []
    const [seconds = '', ...lines] = (await top.git(['show', '--no-patch', '--format=%ct%n%B', top.hash])).split('\n')
    const made = timeOf(seconds)
    return repositoryOf(worker, top, below, { made, message: lines.join('\n').trim().slice(0, 2000) }, limits)
  } finally {
    await rm(join(worker.dir, keyDir), { recursive: true, force: true })
  }
}

/** Returns the commit's time, or 1970 if it is invalid: a commit may contain any number. */
function timeOf(seconds: string): Date {
  const made = new Date(Number(seconds) * 1000)
  return Number.isNaN(made.getTime()) ? new Date(0) : made
}

interface Place {
  readonly worker: Worker
  /** Environment variables with the paths of the trusted certificate authorities. */
  readonly trusted: Readonly<Record<string, string>>
  /** The repository's directory, relative to the worker's directory. */
  readonly dir: string
  readonly prefix: string
}

const keyDir = 'ssh'

async function fetchOne(
  source: Source,
  { worker, trusted, dir, prefix }: Place,
  limits: FetchLimits,
): Promise<Fetched> {
  const url = await checkUrl(source.url, source.allowPrivate, source.ssh !== undefined)
  const ssh = source.ssh && url.scheme === 'ssh' ? await sshEnvironment(worker, keyDir, url, source.ssh) : {}
  const git = gitIn(worker, dir, { ...gitEnvironment(url, source.auth), ...ssh, ...trusted }, limits)
  await mkdir(join(worker.dir, dir), { mode: 0o700 })
  await worker.give(dir)
  await git(['init', '--bare', '--quiet', worker.path(dir)])
  const branch = source.branch || (prefix === '' ? await defaultBranch(git, url) : '')
  return { git, hash: await fetchCommit(git, url, branch, source.commit), branch, prefix }
}

async function fetchSubmodules(
  source: Source,
  parent: Fetched,
  above: Place,
  limits: FetchLimits,
  depth: number,
): Promise<Fetched[]> {
  const found: Fetched[] = []
  for (const [n, { path, url, commit }] of (await submodulesOf(parent.git, parent.hash, source.url)).entries()) {
    if (depth === 0) throw new BuildFault(`Submodules are fetched ${deepestSubmodule} deep; ${path} is deeper.`)
    const place = { ...above, dir: `${above.dir}.${n}`, prefix: `${parent.prefix}${path}/` }
    const its: Source = { ...source, url, branch: '', commit }
    const one = await fetchOne(its, place, limits)
    found.push(one, ...(await fetchSubmodules(its, one, place, limits, depth - 1)))
    if (found.length > mostSubmodules)
      throw new BuildFault(`The repository exceeds the limit of ${mostSubmodules} submodules.`)
  }
  return found
}

function repositoryOf(
  worker: Worker,
  top: Fetched,
  below: readonly Fetched[],
  { made, message }: Pick<SourceTree, 'made'> & Pick<Commit, 'message'>,
  limits: FetchLimits,
): Repository {
  const { git, hash, branch } = top
  return {
    made,
    commit: { branch, hash, message },
    list: () => pathsIn(git, hash),
    read: async path => {
      const size = Number(await git(['cat-file', '-s', `${hash}:${path}`]).catch(() => Number.NaN))
      return fitsPlan(path, size) ? keptText(path, await git(['cat-file', 'blob', `${hash}:${path}`])) : undefined
    },
    archive: async file => {
      const [all, part] = ['source.tar', 'part.tar']
      await archiveOf(top, worker.path(all))
      for (const one of below) {
        await archiveOf(one, worker.path(part))
        const add = ['tar', '--concatenate', `--file=${worker.path(all)}`, worker.path(part)]
        await limited(worker, add, limits).catch(sayTooLarge)
        await rm(join(worker.dir, part))
      }
      await takeOver(join(worker.dir, all))
      await rename(join(worker.dir, all), file)
    },
  }
}

/**
 * Returns the paths of the commit's files. Paths at the top and in `public` are listed separately, because only the
 * last 2 MiB of git's output are kept and a longer list would lose its beginning.
 */
async function pathsIn(git: Git, hash: string): Promise<string[]> {
  const list = async (args: readonly string[]) => (await git(['ls-tree', '-z', ...args])).split('\0')
  const top = await list([hash])
  const named = (type: string) =>
    top.flatMap(line => new RegExp(`^\\d+ ${type} \\w+\\t(.+)$`, 's').exec(line)?.[1] ?? [])
  const dirs = new Set(named('tree'))
  const below = [...(await list(['--name-only', hash, 'public/'])), ...(await list(['-r', '--name-only', hash]))]
  const isBelow = (path: string) => path.includes('/') && dirs.has(path.slice(0, path.indexOf('/')))
  return [...new Set([...named('blob'), ...below.filter(isBelow)])]
}

const archiveOf = ({ git, hash, prefix }: Fetched, file: string) =>
  git(['archive', '--format=tar', `--prefix=${prefix}`, '-o', file, hash]).catch(sayTooLarge)

function sayTooLarge(cause: unknown): never {
  throw tooLarge.test(String(cause)) ? new BuildFault('The source exceeds the size limit.', { cause }) : cause
}

async function defaultBranch(git: Git, { href }: CheckedUrl): Promise<string> {
  const text = await git(['ls-remote', '--symref', '--', href, 'HEAD']).catch(unreachable(href))
  const branch = /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(text)?.[1]
  if (branch === undefined) throw new BuildFault('The repository has no default branch: push a commit first.')
  return branch
}

/**
 * Fetches the commit and returns its hash. If the git host does not serve single commits, this fetches the last fifty
 * commits of the branch, or of every branch if none is given.
 */
async function fetchCommit(git: Git, { href }: CheckedUrl, branch: string, wanted: string): Promise<string> {
  const fetch = (depth: number, what: string) =>
    git(['fetch', '--quiet', `--depth=${depth}`, '--no-tags', '--', href, `+${what}`])
  const resolved = () => git(['rev-parse', '--verify', '--quiet', `${wanted || 'refs/mote/wanted'}^{commit}`])
  const alone = wanted !== '' && (await fetch(1, `${wanted}:refs/mote/wanted`).then(...yesNo))
  const heads = branch === '' ? 'refs/heads/*:refs/mote/heads/*' : `refs/heads/${branch}:refs/mote/wanted`
  if (!alone) await fetch(wanted === '' ? 1 : 50, heads).catch(unreachable(href, branch))
  const hash = await resolved().catch(() => {
    const where = branch === '' ? `The repository ${href}` : `The branch "${branch}"`
    throw new BuildFault(`${where} has no commit ${wanted.slice(0, 12)} among its newest.`)
  })
  return hash.trim()
}

/** Matches messages about a git process that was killed by SIGXFSZ because a file exceeded the size limit. */
const tooLarge = /died of signal 25|was killed|File too large/

const yesNo = [() => true, () => false] as const

/** Maps messages of git to the end of an error message that begins with "The repository ...". */
const reasons: ReadonlyArray<readonly [sign: RegExp, why: string]> = [
  [tooLarge, 'exceeds the size limit for repositories'],
  [/Host key verification failed/, 'is on a host whose key is not among the known_hosts of its credential'],
  [/Permission denied \(/, 'cannot be read with its credential; add the public key of the credential as a deploy key'],
  [/not found|couldn't find remote ref|does not appear to be a git repository/i, 'does not exist'],
  [
    /Authentication failed|could not read Username|returned error: 40[13]/,
    'cannot be read; connect it, give the app a credential that can read it, or make it public',
  ],
  [/returned error: 30\d/, 'has moved; give its new address'],
]

/**
 * Returns a function that maps an error of git to a BuildFault and throws it. The message may contain the address,
 * never the credential.
 */
function unreachable(href: string, branch?: string) {
  return (cause: unknown): never => {
    const text = cause instanceof CommandError ? cause.stderr : String(cause)
    const what = branch ? `The branch "${branch}" of the repository` : 'The repository'
    const why = reasons.find(([sign]) => sign.test(text))?.[1] ?? `cannot be fetched (${text.trim().slice(-300)})`
    throw new BuildFault(`${what} ${why}: ${href}`, { cause })
  }
}
