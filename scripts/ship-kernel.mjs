// Copies the result of `mote kernel build` to guest/kernel: node scripts/ship-kernel.mjs <directory with vmlinux>. The
// build is reproducible: the same source package, configuration and compiler produce the same bytes.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { constants, zstdCompressSync } from 'node:zlib'

const [given] = process.argv.slice(2)
if (given === undefined) {
  process.stderr.write('usage: node scripts/ship-kernel.mjs <directory that mote kernel build printed>\n')
  process.exit(2)
}
const from = resolve(given)
const target = join(dirname(dirname(fileURLToPath(import.meta.url))), 'guest', 'kernel')
const vmlinux = readFileSync(join(from, 'vmlinux'))
mkdirSync(target, { recursive: true })
const params = {
  [constants.ZSTD_c_compressionLevel]: 19,
  [constants.ZSTD_c_windowLog]: 24,
}
writeFileSync(join(target, 'vmlinux.zst'), zstdCompressSync(vmlinux, { params }))
copyFileSync(join(from, 'config'), join(target, 'config'))
const manifest = {
  version: readFileSync(join(from, 'version'), 'utf8').trim(),
  source: readFileSync(join(from, 'source'), 'utf8').trim(),
  compiler: execFileSync('gcc', ['--version'], { encoding: 'utf8' }).split('\n')[0],
  sha256: createHash('sha256').update(vmlinux).digest('hex'),
  bytes: vmlinux.length,
  configHash: basename(from),
}
writeFileSync(join(target, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
process.stdout.write(`${target}: Linux ${manifest.version}, ${vmlinux.length} bytes\n`)
