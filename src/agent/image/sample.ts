import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { arch, tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { sampleImage } from '../../lib/sample.ts'
import { run } from '../../lib/exec.ts'
import { platform, refName } from './layout.ts'

/** Name of the OCI layout of the sample image. References with this name are reserved. */
export const sampleLayout = sampleImage.slice('oci:'.length)

export interface SampleOptions {
  /** Tag of the image in the layout; default: `latest`. */
  readonly tag?: string
  /** First word of the app's greeting, which distinguishes versions of the app; default: `Hello`. */
  readonly greeting?: string
  /** User that runs the app; default: `web`. */
  readonly user?: 'web' | 'root'
  /** Contents of additional programs in /bin, by name. */
  readonly programs?: Readonly<Record<string, Buffer>>
  /** Contents of CGI scripts, by name; the app serves them at `/cgi-bin/<name>`. */
  readonly scripts?: Readonly<Record<string, string>>
}

/**
 * Writes an OCI layout with a small web app into `layoutDir`: busybox httpd listens on `$PORT` (8080), `/` responds
 * with a greeting and the hostname, `/health` with 200, and each request is logged to stdout. Needs no internet access
 * if Debian's busybox-static is installed. The same inputs give the same digest.
 * @returns the manifest's digest
 */
export async function writeSampleImage(layoutDir: string, options: SampleOptions = {}): Promise<string> {
  const layer = await layerTar(await staticBusybox(), options)
  const put = async (data: Buffer) => {
    const digest = createHash('sha256').update(data).digest('hex')
    await mkdir(join(layoutDir, 'blobs/sha256'), { recursive: true })
    await writeFile(join(layoutDir, 'blobs/sha256', digest), data)
    return { digest: `sha256:${digest}`, size: data.length }
  }
  const putJson = (value: unknown) => put(Buffer.from(JSON.stringify(value)))
  const layerBlob = await put(layer)
  const config = await putJson(imageConfig(layerBlob.digest, options.user ?? 'web'))
  const manifest = await putJson({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...config },
    layers: [{ mediaType: 'application/vnd.oci.image.layer.v1.tar', ...layerBlob }],
  })
  const entry = {
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    ...manifest,
    platform,
    annotations: { [refName]: options.tag ?? 'latest' },
  }
  await writeFile(join(layoutDir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  await writeFile(join(layoutDir, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }))
  return manifest.digest
}

function imageConfig(layerDigest: string, user: string) {
  return {
    ...platform,
    config: {
      User: user,
      Env: ['PATH=/bin', 'PORT=8080'],
      Entrypoint: ['/bin/sh', '/app/start'],
      WorkingDir: '/app',
      ExposedPorts: { '8080/tcp': {} },
    },
    rootfs: { type: 'layers', diff_ids: [layerDigest] },
    // Base images need one history entry per layer; otherwise buildah rejects the image.
    history: [{ created_by: 'mote' }],
  }
}

/** busybox httpd logs requests to stderr; the script redirects them to stdout, where access logs belong. */
const startScript = `echo "listening on port $PORT as $(id -un)"
exec httpd -f -vv -p "$PORT" -h /app/www 2>&1
`

const indexScript = (greeting: string) => `#!/bin/sh
printf 'Content-Type: text/plain\\r\\n\\r\\n'
echo "${greeting} from $(hostname), a microVM with Linux $(uname -r)"
`

async function layerTar(
  busybox: Buffer,
  { greeting = 'Hello', programs = {}, scripts = {} }: SampleOptions,
): Promise<Buffer> {
  if (!/^[\w ,.!-]{1,80}$/.test(greeting)) throw new Error('the greeting may have letters, digits and , . ! - only')
  const tar = pack()
  const mtime = new Date(0)
  const dir = (name: string, mode = 0o755) => tar.entry({ name, type: 'directory', mode, mtime })
  const file = (name: string, content: string | Buffer, mode = 0o644) => tar.entry({ name, mode, mtime }, content)
  for (const name of ['bin', 'etc', 'app', 'app/www', 'app/www/cgi-bin']) dir(name)
  dir('tmp', 0o1777)
  file('bin/busybox', busybox, 0o755)
  for (const applet of [
    'sh',
    'httpd',
    'echo',
    'hostname',
    'uname',
    'id',
    'cat',
    'ls',
    'ps',
    'sleep',
    'env',
    'nc',
    'head',
    'dd',
    'od',
    'date',
    'md5sum',
    'mount',
  ]) {
    tar.entry({ name: `bin/${applet}`, type: 'symlink', linkname: 'busybox', mtime })
  }
  for (const [name, program] of Object.entries(programs)) file(`bin/${name}`, program, 0o755)
  file('etc/passwd', 'root:x:0:0:root:/:/bin/sh\nweb:x:1000:1000:web:/app:/bin/sh\n')
  file('etc/group', 'root:x:0:\nweb:x:1000:\n')
  file('app/start', startScript)
  file('app/www/health', 'ok\n')
  file('app/www/cgi-bin/index.cgi', indexScript(greeting), 0o755)
  for (const [name, script] of Object.entries(scripts)) file(`app/www/cgi-bin/${name}`, script, 0o755)
  tar.finalize()
  return buffer(tar)
}

/** Returns the installed static busybox, or downloads Debian's package and returns the busybox in it. */
export async function staticBusybox(): Promise<Buffer> {
  for (const path of ['/bin/busybox', '/usr/bin/busybox']) {
    const data = await readFile(path).catch(() => undefined)
    if (data && isStatic(data)) return data
  }
  const dir = await mkdtemp(join(tmpdir(), 'mote-busybox-'))
  try {
    await run('apt-get', ['download', '-q', 'busybox-static'], { cwd: dir, timeoutMs: 120_000 })
    const deb = (await readdir(dir)).find(file => file.endsWith('.deb'))
    if (deb === undefined) throw new Error('apt-get download left no package: install busybox-static')
    await run('dpkg-deb', ['-x', deb, 'tree'], { cwd: dir })
    const paths = ['tree/bin/busybox', 'tree/usr/bin/busybox'].map(path => readFile(join(dir, path)))
    return await Promise.any(paths)
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

/** Whether an ELF file is statically linked: it has no program header of type PT_INTERP (elf(5)). */
function isStatic(elf: Buffer): boolean {
  if (arch() !== 'x64' && arch() !== 'arm64') return false
  const start = Number(elf.readBigUInt64LE(32))
  const [size, count] = [elf.readUInt16LE(54), elf.readUInt16LE(56)]
  return !Array.from({ length: count }, (_, i) => elf.readUInt32LE(start + i * size)).includes(3)
}
