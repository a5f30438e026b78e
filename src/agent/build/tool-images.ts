/** The images that builds are made in and from. Each is made once on a machine, of Debian's packages. */
import { existsSync } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { run } from '../../lib/exec.ts'
import { cachedDir } from '../guest/cache.ts'
import { staticBusybox } from '../image/sample.ts'
import { writeLayout } from '../image/write-layout.ts'
import { BuildFault } from './fault.ts'

/** `builder` has the compilers; the others are what apps run on. `web` also builds what needs no compiler. */
export const toolImages = ['web', 'node', 'python', 'builder'] as const
export type ToolImage = (typeof toolImages)[number]

/** Changes with the content, so that a machine that has an older one makes it anew. */
const version = 1

/** Reference of the image for a VM of this host. */
export const toolReference = (name: ToolImage) => `oci:${dirName(name)}`
const dirName = (name: ToolImage) => `mote-${name}-${version}`

export interface ToolImageDirs {
  readonly cacheDir: string
  /** Where the image store looks for layouts. */
  readonly imageDir: string
}

/**
 * The image's OCI layout, made if this machine does not have it: `web` at once, the others take minutes once.
 * @throws BuildFault when Debian's packages cannot be had
 */
export async function ensureToolImage(
  dirs: ToolImageDirs,
  name: ToolImage,
  say: (line: string) => void,
): Promise<string> {
  const layout = join(dirs.cacheDir, 'tool-images', dirName(name))
  if (!existsSync(layout) && name !== 'web') say(`making the image "${name}" of Debian packages, once on this machine`)
  await cachedDir(layout, dir => makers[name](dir))
  await mkdir(dirs.imageDir, { recursive: true })
  await symlink(layout, join(dirs.imageDir, dirName(name))).catch((error: unknown) => {
    if (!existsSync(join(dirs.imageDir, dirName(name)))) throw error
  })
  return layout
}

const packages = {
  node: ['nodejs', 'ca-certificates', 'tzdata'],
  python: ['python3', 'ca-certificates', 'tzdata'],
  builder: [
    ...['ca-certificates', 'git', 'build-essential', 'pkg-config', 'nodejs', 'npm', 'golang-go', 'buildah', 'mount'],
    ...['python3', 'python3-dev', 'python3-pip', 'python3-venv'],
  ],
} as const

const makers: Record<ToolImage, (dir: string) => Promise<void>> = {
  web: async dir => {
    await writeFile(join(dir, 'layer.tar'), await webLayer())
    await finish(dir)
  },
  node: dir => debian(dir, packages.node),
  python: dir => debian(dir, packages.python),
  builder: dir => debian(dir, packages.builder),
}

const finish = (dir: string) =>
  writeLayout(dir, { tag: 'latest', layers: [join(dir, 'layer.tar')], config: { Env: [], Cmd: ['/bin/sh'] } })

/** Documentation, translations and manuals are half of a small system. */
const left = ['doc', 'man', 'locale', 'info', 'lintian'].map(one => `--dpkgopt=path-exclude=/usr/share/${one}/*`)

async function debian(dir: string, wanted: readonly string[]): Promise<void> {
  const layer = join(dir, 'layer.tar')
  const tidy = '--customize-hook=rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/*'
  // Not even a mode of its own needs root: unshare is chosen when it is not.
  const args = ['--quiet', '--variant=minbase', `--include=${wanted.join(',')}`, tidy, ...left]
  await run('mmdebstrap', [...args, release, layer, mirror], { timeoutMs: 30 * 60_000 }).catch((cause: unknown) => {
    throw new BuildFault(
      'This host cannot make its builder images: it needs mmdebstrap and a mirror of Debian. Try: mote image build builder',
      { cause },
    )
  })
  await finish(dir)
}

const release = 'bookworm'
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
