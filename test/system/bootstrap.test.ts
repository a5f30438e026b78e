/**
 * What `bin/mote` does in a checkout without node_modules.
 * Not repeated on the distribution's PostgreSQL: this file uses no database.
 */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { npmInstall, reasonOf } from '../../scripts/step.mjs'

const root = join(import.meta.dirname, '../..')
let checkout: string
let bin: string

beforeEach(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'mote-bootstrap-'))
  bin = join(checkout, 'own-bin')
  for (const name of ['bin', 'scripts', 'package.json', 'package-lock.json'])
    await cp(join(root, name), join(checkout, name), { recursive: true })
})
afterEach(async () => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  await rm(checkout, { recursive: true, force: true })
})

interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs `mote` with a fake `npm`. @param npm text that the fake prints before it fails */
async function mote(args: readonly string[], npm = 'npm was called'): Promise<Outcome> {
  await mkdir(bin, { recursive: true })
  await symlink(process.execPath, join(bin, 'node')).catch(() => undefined)
  await writeFile(join(bin, 'npm'), `#!/bin/sh\ncat >&2 <<'END'\n${npm}\nEND\nexit 1\n`, { mode: 0o755 })
  const env = { PATH: `${bin}:/usr/bin:/bin`, HOME: checkout, LC_ALL: 'C' }
  return new Promise(resolve => {
    execFile(join(checkout, 'bin', 'mote'), [...args], { env }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    )
  })
}

test.each([['--help'], ['help'], ['-h'], ['deploy', '--help'], ['up', '--help'], ['demo', '-h'], ['test', '--help']])(
  "mote %s %s installs nothing and names the README's first command",
  async (...args) => {
    const { code, stdout, stderr } = await mote(args)
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain('npm run demo')
    expect(await readdir(checkout)).not.toContain('node_modules')
  },
)

test.each([['--version'], ['-V']])('mote %s installs nothing and prints the version', async flag => {
  const { code, stdout } = await mote([flag])
  expect([code, stdout]).toEqual([0, '0.1.0\n'])
  expect(await readdir(checkout)).not.toContain('node_modules')
})

/** Installs a fake `npm`: `npm ping` fails with this code, and `npm install` lasts until a file `reported` exists. */
async function slowNpm(code: string): Promise<void> {
  await mkdir(bin, { recursive: true })
  const install = `until [ -e ${bin}/reported ]; do sleep 0.05; done`
  const script = `#!/bin/sh\ncase $1 in\nping) echo "npm error code ${code}" >&2; exit 1 ;;\n*) ${install} ;;\nesac\n`
  await writeFile(join(bin, 'npm'), script, { mode: 0o755 })
  vi.stubEnv('PATH', `${bin}:/usr/bin:/bin`)
}

test('the installation of npm packages fails at once if the registry has an untrusted certificate', async () => {
  await slowNpm('SELF_SIGNED_CERT_IN_CHAIN')
  await expect(npmInstall(checkout, join(bin, 'node'), [], 1)).rejects.toThrow('NODE_EXTRA_CA_CERTS')
})

test('the installation of npm packages reports that the registry does not respond, and continues', async () => {
  await slowNpm('ETIMEDOUT')
  const said: string[] = []
  vi.spyOn(process.stderr, 'write').mockImplementation(text => {
    said.push(String(text))
    writeFileSync(join(bin, 'reported'), '')
    return true
  })
  await npmInstall(checkout, join(bin, 'node'), [], 1)
  expect(said).toEqual(['the npm registry does not answer, npm tries again ... '])
})

test('a failed installation of npm packages prints one sentence and no stack trace', async () => {
  const { code, stderr } = await mote(['demo'], 'npm ERR! code ENOSPC\nnpm ERR! no space left on device, write')
  expect(code).toBe(1)
  expect(stderr).toContain('Installing npm packages')
  expect(stderr).toContain('The disk is full')
  expect(stderr).not.toMatch(/^\s+at /m)
})

test.each([
  ['npm ERR! code ENOSPC', /disk is full/],
  ["E: You don't have enough free space: No space left on device", /disk is full/],
  ['npm ERR! code SELF_SIGNED_CERT_IN_CHAIN', /NODE_EXTRA_CA_CERTS/],
  ['npm ERR! code ENOTFOUND', /cannot be reached.*HTTPS_PROXY/],
  ["Err:1 Could not resolve 'mirror.example.com'", /cannot be reached/],
  ['something else\nhappened', /something else\nhappened/],
])('the npm or apt error "%s" is explained with the next step', (output, sentence) => {
  expect(reasonOf(output)).toMatch(sentence)
})
