/**
 * Installs `runsc` on this host: the official release if its server can be reached, otherwise a build of the Go module
 * with the same sources, which Go's module proxy serves and its checksum database verifies.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises'
import { arch } from 'node:os'
import { join } from 'node:path'
import { EnvHttpProxyAgent, fetch } from 'undici'
import { minutes } from '../../../lib/duration.ts'
import { run } from '../../../lib/exec.ts'
import { findProgram } from '../../../lib/programs.ts'
import { cachedDir } from '../../guest/cache.ts'

/** The release to install; the server has a checksum for it (https://gvisor.dev/docs/user_guide/install/). */
const release = '20260223'
/**
 * Version of gVisor's Go module to build: the `go` branch of gvisor.dev/gvisor in the week of the release above. Newer
 * versions are untested.
 */
const moduleVersion = 'v0.0.0-20260224225140-573d5e7127a8'

/**
 * The Go toolchain for the build. gVisor depends on the layout of Go's internal structures: a build with an untested
 * toolchain failed in one of seven starts.
 */
const go = {
  version: 'go1.26.8',
  url: 'https://proxy.golang.org/golang.org/toolchain/@v/v0.0.1-go1.26.8.linux-amd64.zip',
  sha256: '30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7',
} as const

const dirOf = (cacheDir: string) => join(cacheDir, 'runsc', moduleVersion)

/** Returns the path of the runsc that `installRunsc` has installed; undefined if there is none. */
export function installedRunsc(cacheDir: string): string | undefined {
  const program = join(dirOf(cacheDir), 'runsc')
  return existsSync(program) ? program : undefined
}

/**
 * Returns the path of runsc, and installs it first if it is missing. Takes seconds for the release, minutes for a
 * build.
 * @throws Error with the programs to install, or why neither way works
 */
export async function installRunsc(
  cacheDir: string,
  onProgress: (line: string) => void,
  signal: AbortSignal,
): Promise<string> {
  const dir = await cachedDir(dirOf(cacheDir), async target => {
    const file = join(target, 'runsc')
    const why = await fetchRelease(file, signal).then(
      () => undefined,
      (error: unknown) => error,
    )
    signal.throwIfAborted()
    if (why === undefined) return onProgress(`fetched the release ${release} of gVisor`)
    onProgress(`the release of gVisor cannot be fetched (${messageOf(why)}): building it from its module`)
    await build(target, onProgress, signal)
  })
  return join(dir, 'runsc')
}

const architectures: Readonly<Record<string, string>> = { x64: 'x86_64', arm64: 'aarch64' }
const fetchMs = minutes(5)

async function fetchRelease(file: string, signal: AbortSignal): Promise<void> {
  const url = `https://storage.googleapis.com/gvisor/releases/release/${release}/${architectures[arch()]}/runsc`
  const [wanted] = (await download(`${url}.sha512`, 1024, signal)).toString('utf8').split(/\s/)
  const program = await download(url, 256 << 20, signal)
  if (createHash('sha512').update(program).digest('hex') !== wanted)
    throw new Error('the checksum of the release does not match')
  await writeFile(file, program)
  await chmod(file, 0o755)
}

async function download(url: string, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(fetchMs)])
  const dispatcher = new EnvHttpProxyAgent()
  const response = await fetch(url, { signal: limit, dispatcher }).catch((error: unknown) => {
    const cause = error instanceof Error ? error.cause : undefined
    throw cause instanceof Error ? cause : error
  })
  if (!response.ok) throw new Error(`${new URL(url).host} answered ${response.status}`)
  if (Number(response.headers.get('content-length') ?? 0) > maxBytes) throw new Error('the file is too large')
  return Buffer.from(await response.arrayBuffer())
}

const buildMs = minutes(30)

async function build(target: string, onProgress: (line: string) => void, signal: AbortSignal): Promise<void> {
  const work = join(target, 'work')
  await mkdir(work, { recursive: true })
  try {
    const program = await goProgram(work, onProgress, signal)
    onProgress('building gVisor, which takes 1 to 5 minutes')
    const env = {
      GOTOOLCHAIN: go.version,
      GOFLAGS: '-mod=mod',
      CGO_ENABLED: '0',
      GOPATH: join(work, 'path'),
      GOCACHE: join(work, 'cache'),
      GOBIN: target,
    }
    const started = performance.now()
    const tick = setInterval(() => {
      onProgress(`building gVisor for ${Math.round((performance.now() - started) / 1000)} s`)
    }, 20_000)
    try {
      const what = `gvisor.dev/gvisor/runsc@${moduleVersion}`
      await run(program, ['install', what], { env, network: true, timeoutMs: buildMs, signal })
    } finally {
      clearInterval(tick)
    }
  } finally {
    // Go makes the files of downloaded modules read-only, so they could not be deleted.
    await run('chmod', ['-R', 'u+w', work])
    await rm(work, { recursive: true, force: true })
  }
}

/** Returns the path of `go`. Go 1.21 and newer download the required toolchain; without Go, this function does. */
async function goProgram(work: string, onProgress: (line: string) => void, signal: AbortSignal): Promise<string> {
  const installed = await findProgram('go')
  if (installed !== undefined) {
    const text = await run(installed, ['version'], { env: { GOTOOLCHAIN: 'local' }, signal })
    const minor = Number(/go1\.(\d+)/.exec(text)?.[1] ?? 0)
    if (minor >= firstWithToolchains) return installed
  }
  if (arch() !== 'x64') throw new Error('install Go 1.21 or newer (https://go.dev/dl/), and run it again')
  onProgress(`fetching ${go.version}`)
  const archive = await download(go.url, 256 << 20, signal)
  if (createHash('sha256').update(archive).digest('hex') !== go.sha256)
    throw new Error(`the checksum of ${go.version} does not match`)
  const zip = join(work, 'go.zip')
  await writeFile(zip, archive)
  if ((await findProgram('unzip')) === undefined) throw new Error('install unzip (apt-get install unzip)')
  await run('unzip', ['-q', zip, '-d', work], { signal })
  const root = join(work, `golang.org/toolchain@v0.0.1-${go.version}.linux-amd64`)
  const program = join(root, 'bin/go')
  await run('chmod', ['-R', '+x', join(root, 'bin'), join(root, 'pkg/tool')])
  return program
}

const firstWithToolchains = 21

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))
