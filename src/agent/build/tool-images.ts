/** The images that builds run in and are based on. Each is created once per host, from Debian packages. */
import { existsSync } from 'node:fs'
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { run } from '../../lib/exec.ts'
import { privateDir } from '../../lib/files.ts'
import { cachedDir } from '../guest/cache.ts'
import { staticBusybox } from '../image/sample.ts'
import { writeLayout } from '../image/write-layout.ts'
import { BuildFault } from './fault.ts'
import { phpPackages } from './plan/debian.ts'

/** `builder` has the compilers; the others are base images of apps. `web` also runs builds that need no compiler. */
export const toolImages = ['web', 'node', 'python', 'builder'] as const
/** Made by the first build that needs them. */
const languageImages = ['php', 'java', 'maven'] as const
export type ToolImage = (typeof toolImages | typeof languageImages)[number]

/** Increased when the content changes, so that hosts with an older image recreate it. */
const versions = { web: 2, node: 3, python: 2, builder: 4, php: 2, java: 2, maven: 2 } as const satisfies Record<
  ToolImage,
  number
>

/** Returns the image reference for a VM on this host. */
export const toolReference = (name: ToolImage) => `oci:${dirName(name)}`
const dirName = (name: ToolImage) => `mote-${name}-${versions[name]}`

export interface ToolImageDirs {
  readonly cacheDir: string
  /** The image store's directory of layouts. */
  readonly imageDir: string
}

/** Returns whether this host has the image, or can create it at once. */
export const hasToolImage = (cacheDir: string, name: ToolImage): boolean =>
  name === 'web' || existsSync(layoutOf(cacheDir, name))
const layoutOf = (cacheDir: string, name: ToolImage) => join(cacheDir, 'tool-images', dirName(name))

/**
 * Returns the image's OCI layout, and creates it if this host does not have it: `web` takes a moment, the others some
 * minutes.
 * @param signal aborts the creation, which then leaves nothing behind
 * @throws BuildFault when Debian's packages are not available
 */
export async function ensureToolImage(
  dirs: ToolImageDirs,
  name: ToolImage,
  say: (line: string) => void,
  signal?: AbortSignal,
): Promise<string> {
  const layout = layoutOf(dirs.cacheDir, name)
  if (!existsSync(layout) && name !== 'web')
    say(`creating the image "${name}" from Debian packages, once on this host; it takes some minutes`)
  await cachedDir(layout, dir => makers[name](dir, signal))
  await privateDir(dirs.imageDir)
  await symlink(layout, join(dirs.imageDir, dirName(name))).catch((error: unknown) => {
    if (!existsSync(join(dirs.imageDir, dirName(name)))) throw error
  })
  return layout
}

/**
 * Libraries that packages of npm, PyPI, RubyGems and crates.io compile against: what the images of Docker Hub that have
 * no "slim" in their name contain for that purpose (buildpack-deps).
 */
const headers = [
  ...['default-libmysqlclient-dev', 'libbz2-dev', 'libcurl4-openssl-dev', 'libffi-dev', 'libgmp-dev', 'libjpeg-dev'],
  ...['liblzma-dev', 'libpng-dev', 'libpq-dev', 'libreadline-dev', 'libsqlite3-dev', 'libssl-dev', 'libxml2-dev'],
  ...['libxslt1-dev', 'libyaml-dev', 'zlib1g-dev'],
] as const

const packages = {
  // Node.js 26 and newer from npm need libatomic, which Debian's own Node.js does not.
  node: ['nodejs', 'libatomic1', 'ca-certificates', 'tzdata'],
  python: ['python3', 'ca-certificates', 'tzdata'],
  builder: [
    ...['ca-certificates', 'git', 'build-essential', 'pkg-config', 'nodejs', 'npm', 'golang-go', 'buildah', 'mount'],
    ...['python3', 'python3-dev', 'python3-pip', 'python3-venv'],
    ...headers,
    // buildah looks for it before it runs a step, also without a separate network.
    'netavark',
  ],
  php: [...phpPackages, 'ca-certificates', 'tzdata'],
  java: ['openjdk-21-jre-headless', 'ca-certificates', 'tzdata'],
  maven: ['openjdk-21-jdk-headless', 'maven', 'curl', 'git', 'ca-certificates', 'ca-certificates-java', 'mount'],
} as const

/** The packages that a base image of apps was made of; empty if it is not one of Debian. */
export const basePackages = (name: ToolImage): readonly string[] => (name === 'web' ? [] : packages[name])

const makers: Record<ToolImage, (dir: string, signal?: AbortSignal) => Promise<void>> = {
  web: async dir => {
    await writeFile(join(dir, 'layer.tar'), await webLayer())
    await finish(dir)
  },
  node: (dir, signal) => debian(dir, packages.node, signal),
  python: (dir, signal) => debian(dir, packages.python, signal),
  builder: (dir, signal) => debian(dir, packages.builder, signal, [warmGo]),
  php: (dir, signal) => debian(dir, packages.php, signal),
  java: (dir, signal) => debian(dir, packages.java, signal, [manPages]),
  maven: (dir, signal) => debian(dir, packages.maven, signal, [manPages]),
}

const finish = (dir: string) =>
  writeLayout(dir, { tag: 'latest', layers: [join(dir, 'layer.tar')], config: { Env: [], Cmd: ['/bin/sh'] } })

/**
 * Sets the times of all files, so that the same packages give the same image (reproducible-builds.org,
 * SOURCE_DATE_EPOCH).
 */
const reproducible = { SOURCE_DATE_EPOCH: '1672531200' }

/**
 * Directory with Go's standard packages precompiled: under emulation compiling them takes a VM ten minutes, here one.
 */
export const goSeed = '/usr/lib/mote/go-cache'
/** Packages that most web programs import; with their imports they are half of the standard library. */
const goPackages = ['net/http', 'encoding/json', 'html/template', 'database/sql', 'os/signal', 'compress/gzip', 'flag']
// The settings must equal those of the recipe, because they are part of the cache key.
const warmGo = `--customize-hook=chroot "$1" env HOME=/root CGO_ENABLED=0 GOCACHE=${goSeed} go build -trimpath ${goPackages.join(' ')}`

/** Java's packages link manuals, and need their directory although it stays empty. */
const manPages = '--essential-hook=mkdir -p "$1"/usr/share/man/man1'

/** Excludes documentation, translations and manuals, which are half of a small system. */
const left = ['doc', 'man', 'locale', 'info', 'lintian'].map(one => `--dpkgopt=path-exclude=/usr/share/${one}/*`)

async function debian(
  dir: string,
  wanted: readonly string[],
  signal?: AbortSignal,
  hooks: readonly string[] = [],
): Promise<void> {
  const layer = join(dir, 'layer.tar')
  const tidy = '--customize-hook=rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*'
  // mmdebstrap's default mode works without root: it chooses unshare then.
  const args = ['--quiet', '--variant=minbase', `--include=${wanted.join(',')}`, ...hooks, tidy, ...left]
  const options = { env: reproducible, timeoutMs: 30 * 60_000, ...(signal ? { signal } : {}) }
  await run('mmdebstrap', [...args, release, layer, mirror], options).catch((cause: unknown) => {
    throw new BuildFault(
      'This host cannot make its builder images: it needs mmdebstrap, a current debian-archive-keyring and a mirror of Debian. Try: mote image build builder',
      { cause },
    )
  })
  await finish(dir)
}

const release = 'trixie'
const mirror = 'http://deb.debian.org/debian'

const applets = [
  ...[
    'sh',
    'httpd',
    'cat',
    'cp',
    'mv',
    'rm',
    'mkdir',
    'ls',
    'ln',
    'tar',
    'sync',
    'mount',
    'echo',
    'sleep',
    'env',
    'id',
  ],
  ...['head', 'tail', 'grep', 'sed', 'find', 'hostname', 'uname', 'date', 'test', 'true', 'false'],
]

async function webLayer(): Promise<Buffer> {
  const tar = pack()
  const mtime = new Date(0)
  for (const name of ['bin', 'etc', 'app', 'var', 'run', 'root'])
    tar.entry({ name, type: 'directory', mode: 0o755, mtime })
  tar.entry({ name: 'tmp', type: 'directory', mode: 0o1777, mtime })
  tar.entry({ name: 'bin/busybox', mode: 0o755, mtime }, await staticBusybox())
  for (const applet of applets) tar.entry({ name: `bin/${applet}`, type: 'symlink', linkname: 'busybox', mtime })
  tar.entry({ name: 'etc/passwd', mtime }, 'root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/app:/bin/sh\n')
  tar.entry({ name: 'etc/group', mtime }, 'root:x:0:\napp:x:1000:\n')
  tar.finalize()
  return buffer(tar)
}
