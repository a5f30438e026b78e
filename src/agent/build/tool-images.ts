/**
 * The images in which builds run, and on which the images of apps are based. Each host makes its own from Debian
 * packages.
 */
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

/** `builder` has compilers; the others are base images for apps. `web` also runs builds that need no compiler. */
export const toolImages = ['web', 'node', 'python', 'builder'] as const
/** Images that are only made when a build needs them. */
const languageImages = ['php', 'java', 'maven'] as const
export type ToolImage = (typeof toolImages | typeof languageImages)[number]

/** Content version of each image. Increase it when the content changes, so that hosts make the image again. */
const versions = { web: 2, node: 3, python: 2, builder: 4, php: 2, java: 2, maven: 2 } as const satisfies Record<
  ToolImage,
  number
>

/** Returns the image reference with which a VM on this host starts from the image. */
export const toolReference = (name: ToolImage) => `oci:${dirName(name)}`
const dirName = (name: ToolImage) => `mote-${name}-${versions[name]}`

export interface ToolImageDirs {
  readonly cacheDir: string
  /** Directory of the OCI layouts from which VMs may start. */
  readonly imageDir: string
}

/** Whether this host has the image, or can make it within seconds. */
export const hasToolImage = (cacheDir: string, name: ToolImage): boolean =>
  name === 'web' || existsSync(layoutOf(cacheDir, name))
const layoutOf = (cacheDir: string, name: ToolImage) => join(cacheDir, 'tool-images', dirName(name))

/**
 * Returns the OCI layout of a tool image, and makes the image first if this host does not have it. Making `web` takes a
 * moment, the other images several minutes.
 * @param signal cancels making the image, and leaves nothing behind
 * @throws BuildFault if Debian's packages are unavailable
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
 * Development packages of libraries that packages from npm, PyPI, RubyGems and crates.io compile against. The list
 * follows buildpack-deps, the base of the non-slim images on Docker Hub.
 */
const headers = [
  ...['default-libmysqlclient-dev', 'libbz2-dev', 'libcurl4-openssl-dev', 'libffi-dev', 'libgmp-dev', 'libjpeg-dev'],
  ...['liblzma-dev', 'libpng-dev', 'libpq-dev', 'libreadline-dev', 'libsqlite3-dev', 'libssl-dev', 'libxml2-dev'],
  ...['libxslt1-dev', 'libyaml-dev', 'zlib1g-dev'],
] as const

const packages = {
  // npm's builds of Node.js 26 and newer need libatomic; Debian's Node.js does not.
  node: ['nodejs', 'libatomic1', 'ca-certificates', 'tzdata'],
  python: ['python3', 'ca-certificates', 'tzdata'],
  builder: [
    ...['ca-certificates', 'git', 'build-essential', 'pkg-config', 'nodejs', 'npm', 'golang-go', 'buildah', 'mount'],
    ...['python3', 'python3-dev', 'python3-pip', 'python3-venv'],
    ...headers,
    // buildah requires netavark before it runs a step, even without a separate network.
    'netavark',
  ],
  php: [...phpPackages, 'ca-certificates', 'tzdata'],
  java: ['openjdk-21-jre-headless', 'ca-certificates', 'tzdata'],
  maven: ['openjdk-21-jdk-headless', 'maven', 'curl', 'git', 'ca-certificates', 'ca-certificates-java', 'mount'],
} as const

/** The Debian packages in a base image; empty for an image without Debian. */
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
 * Sets the modification times of all files to a fixed time, so that the same packages give the same image
 * (reproducible-builds.org, SOURCE_DATE_EPOCH).
 */
const reproducible = { SOURCE_DATE_EPOCH: '1672531200' }

/**
 * Directory with Go's standard library, precompiled when the image is made. This takes one minute; under emulation,
 * compiling it in a VM takes ten.
 */
export const goSeed = '/usr/lib/mote/go-cache'
/** Packages that most web programs import. With their own imports, they are half of the standard library. */
const goPackages = ['net/http', 'encoding/json', 'html/template', 'database/sql', 'os/signal', 'compress/gzip', 'flag']
// The flags of this `go build` must equal those in the build recipe, because they are part of Go's cache key.
const warmGo = `--customize-hook=chroot "$1" env HOME=/root CGO_ENABLED=0 GOCACHE=${goSeed} go build -trimpath ${goPackages.join(' ')}`

/** Debian's Java packages link manual pages and fail to install without this directory. */
const manPages = '--essential-hook=mkdir -p "$1"/usr/share/man/man1'

/** Excludes documentation, translations and manual pages, which are half of a small system. */
const left = ['doc', 'man', 'locale', 'info', 'lintian'].map(one => `--dpkgopt=path-exclude=/usr/share/${one}/*`)

async function debian(
  dir: string,
  wanted: readonly string[],
  signal?: AbortSignal,
  hooks: readonly string[] = [],
): Promise<void> {
  const layer = join(dir, 'layer.tar')
  const tidy = '--customize-hook=rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*'
  // Works without root: mmdebstrap then chooses its unshare mode by default.
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
