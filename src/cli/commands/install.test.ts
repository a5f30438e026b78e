import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { hasProgram } from '../../lib/programs.ts'
import { environment, installCommand, requireDashboard } from './install.ts'

const hasSystemd = await hasProgram('systemd-analyze')
const units = ['control', 'gateway', 'agent'] as const
const unitFile = (program: string) =>
  fileURLToPath(new URL(`../../../packaging/systemd/mote-${program}.service`, import.meta.url))
const main = fileURLToPath(new URL('../main.ts', import.meta.url))
const asNobody = ['--user', '--map-user=64999', '--map-group=64999']
const canRename = await promisify(execFile)('unshare', [...asNobody, 'true']).then(
  () => true,
  () => false,
)

describe('mote install', () => {
  it('keeps existing settings, adds the given ones, and leaves missing ones empty', () => {
    expect(environment('gateway', '', [])).toBe('NATS_URL=\n')
    expect(environment('agent', 'NATS_URL=nats://a\nEXTRA=1\n', ['MOTE_HOST_ID=7'])).toBe(
      'NATS_URL=nats://a\nMOTE_HOST_ID=7\nMOTE_HOST_NAME=\nEXTRA=1\n',
    )
    expect(environment('gateway', 'NATS_URL=a\n', ['NATS_URL=b'])).toBe('NATS_URL=b\n')
  })

  it.each(['lower=1', 'A B=1'])('refuses the invalid setting %j', set => {
    expect(() => environment('agent', '', [set])).toThrow(/not a valid name of a setting/)
  })

  it('refuses a setting whose value contains a line break', () => {
    expect(() => environment('agent', '', ['A=1\nB=2'])).toThrow(/line break/)
  })

  it.each(['control', 'gateway', 'agent'])(
    'writes a unit for %s and settings that only root can read',
    async program => {
      const root = await mkdtemp(join(tmpdir(), 'mote-install-'))
      try {
        await installCommand().exitOverride().parseAsync(['node', 'mote', program, '--root', root])
        expect((await stat(join(root, 'etc/mote', `${program}.env`))).mode & 0o777).toBe(0o600)
        const unit = await readFile(join(root, 'etc/systemd/system', `mote-${program}.service`), 'utf8')
        expect(unit).toMatch(new RegExp(`^ExecStart="/.*/bin/mote" ${program}`, 'm'))
        // systemd gives up by default after five starts in ten seconds. A program that fails at once would exceed that.
        expect(unit).toMatch(/^Restart=always\nRestartSec=1$/m)
        expect(unit).toMatch(/^\[Unit\]$[^[]*^StartLimitIntervalSec=0$/m)
      } finally {
        await rm(root, { recursive: true, force: true })
      }
    },
  )

  it('refuses to install a control plane without a built dashboard', () => {
    expect(() => requireDashboard('/nonexistent')).toThrow('run npm run build in /nonexistent first')
  })

  it('gives each systemd unit its own state directory and no restart limit', async () => {
    const texts = await Promise.all(units.map(program => readFile(unitFile(program), 'utf8')))
    const directories = texts.map(text => /^StateDirectory=(.+)$/m.exec(text)?.[1])
    expect(new Set(directories).size).toBe(units.length)
    for (const text of texts) expect(text).toMatch(/^StartLimitIntervalSec=0$/m)
  })

  it.skipIf(!canRename).each(['control', 'gateway'])(
    '%s starts as a user without name and home, like a dynamic user in systemd (needs user namespaces)',
    async program => {
      // No server listens at this address, so the program starts and reports that.
      const env = {
        NATS_URL: 'nats://127.0.0.1:1',
        DATABASE_URL: 'postgres://127.0.0.1:1/x',
        MOTE_SECRET_KEY: 'k'.repeat(32),
      }
      const args = [...asNobody, process.execPath, main, program]
      const failure = await promisify(execFile)('unshare', args, { env: { PATH: process.env.PATH, ...env } }).catch(
        error => error,
      )
      expect(String(failure.stderr).trim().split('\n').at(-1)).toMatch(/cannot reach|does not answer|refused|was lost/i)
    },
    30_000,
  )

  it.skipIf(!hasSystemd).each([
    ['control', 2.4],
    ['gateway', 2.6],
    ['agent', 5.3],
  ])('systemd-analyze rates the exposure of %s at %d or less (needs systemd)', async (program, most) => {
    const root = await mkdtemp(join(tmpdir(), 'mote-install-'))
    try {
      await installCommand().exitOverride().parseAsync(['node', 'mote', program, '--root', root])
      const file = join(root, 'etc/systemd/system', `mote-${program}.service`)
      const args = ['security', '--offline=true', '--no-pager', file]
      const { stdout } = await promisify(execFile)('systemd-analyze', args)
      expect(Number(/exposure level for .*: (\d+\.\d+)/.exec(stdout)?.[1])).toBeLessThanOrEqual(most)
    } finally {
      await rm(root, { recursive: true, force: true })
    }
  })

  it('enables packet forwarding before the agent starts, which may not change kernel settings', async () => {
    const unit = await readFile(unitFile('agent'), 'utf8')
    expect(unit).toMatch(/^ProtectKernelTunables=yes$/m)
    expect(unit).toMatch(/^ExecStartPre=\+@MOTE@ agent --enable-forwarding$/m)
  })

  it.skipIf(!hasSystemd).each(['control', 'gateway', 'agent'])(
    'systemd accepts the unit of %s (needs systemd)',
    async program => {
      const root = await mkdtemp(join(tmpdir(), 'mote-install-'))
      try {
        await installCommand().exitOverride().parseAsync(['node', 'mote', program, '--root', root])
        const file = join(root, 'etc/systemd/system', `mote-${program}.service`)
        const { stderr } = await promisify(execFile)('systemd-analyze', ['verify', file]).catch(error => error)
        const about = String(stderr)
          .split('\n')
          .filter(line => line.includes(`mote-${program}`))
        expect(about).toEqual([])
      } finally {
        await rm(root, { recursive: true, force: true })
      }
    },
  )
})
