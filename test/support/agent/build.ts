/** A real Git repository, served over HTTP by the real git. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { basic, type GitHostOptions, pushDelivery, startGitHost } from '../../../src/cli/demo/git-host.ts'
import type { BuildPut } from '../../../src/contract/agent.ts'
import { openWorker, unprivilegedIn, type Worker } from '../../../src/agent/worker/worker.ts'
import { homeDir } from '../../../src/lib/home.ts'
import { workTree, type WorkTree } from '../../../src/cli/demo/work-tree.ts'

/** How this machine isolates workers. Each process finds out once, which takes half a second of CPU time. */
const unprivileged = unprivilegedIn(join(homeDir(), '.cache/mote'))

/**
 * Opens a worker (a sandboxed child process) that runs git in the new directory `git` below `path`, with as much
 * isolation as this machine supports.
 */
export async function gitWorker(path: string, signal: AbortSignal): Promise<Worker> {
  const dir = join(path, 'git')
  await mkdir(dir)
  return openWorker(await unprivileged(), dir, { network: 'host', signal })
}

/** Returns the desired state of a build of a small repository in an emulated guest. */
export const emulatedBuild = (url: string, buildId: string, change: Partial<BuildPut['spec']> = {}): BuildPut => ({
  buildId,
  generation: 1,
  want: 'present',
  spec: {
    projectId: 'p1',
    appId: 'a1',
    deploymentId: 'd1',
    hypervisor: 'qemu',
    vcpus: 1,
    memoryMib: 256,
    diskMib: 256,
    source: { url, branch: '', commit: '', allowPrivate: true },
    timeLimitMs: 120_000,
    repository: null,
    ...change,
  },
})

export interface GitServer extends AsyncDisposable, WorkTree {
  /** URL of the repository: `http://127.0.0.1:port/app.git` */
  readonly url: string
  /** Returns the signed webhook request that a Git host sends after a push to the branch. */
  delivery(secret: string, branch?: string): ReturnType<typeof pushDelivery>
}

export async function gitServer(options: Pick<GitHostOptions, 'auth' | 'onPush'> = {}): Promise<GitServer> {
  const dir = await mkdtemp(join(tmpdir(), 'mote-git-'))
  const host = await startGitHost({ ...options, dir })
  await host.create('app')
  const url = host.urlOf('app')
  const header = options.auth === undefined ? undefined : `Authorization: ${basic(options.auth)}`
  const tree = await workTree(join(dir, 'tree'), url, header)
  return {
    url,
    push: tree.push,
    delivery: (secret, branch = 'main') => pushDelivery(dir, 'app', branch, secret),
    async [Symbol.asyncDispose]() {
      await host[Symbol.asyncDispose]()
      await rm(dir, { recursive: true, force: true })
    },
  }
}
