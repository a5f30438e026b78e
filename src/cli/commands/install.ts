import { Argument, Command } from 'commander'
import { existsSync } from 'node:fs'
import { basename, join } from 'node:path'
import { out } from '../terminal.ts'

const programs = ['control', 'gateway', 'agent'] as const
type Program = (typeof programs)[number]

/** Initial settings file of each program; the operator fills in the empty values. */
const settings: Readonly<Record<Program, readonly string[]>> = {
  control: ['DATABASE_URL=', 'NATS_URL=', 'MOTE_SECRET_KEY=', 'MOTE_DOMAIN=', 'MOTE_PUBLIC_URL='],
  gateway: ['NATS_URL='],
  agent: ['NATS_URL=', 'MOTE_HOST_ID=', 'MOTE_HOST_NAME='],
}

interface Flags {
  readonly print?: boolean
  readonly set: readonly string[]
  readonly root: string
}

export const installCommand = () =>
  new Command('install')
    .description('Install a program as a systemd service on this host')
    .addArgument(new Argument('<program>', 'the program').choices(programs))
    .option(
      '--set <name=value>',
      'a setting; can be repeated',
      (value: string, all: readonly string[]) => [...all, value],
      [],
    )
    .option('--print', 'print the unit and the settings without installing them')
    .option('--root <dir>', 'write below this directory and start nothing', '/')
    .addHelpText('after', "\nExample:\n  $ mote install agent --set NATS_URL='nats://...' --set MOTE_HOST_ID=...")
    .action((program: Program, flags: Flags) => install(program, flags))

async function install(program: Program, { print, set, root }: Flags): Promise<void> {
  const { readFile, mkdir, writeFile } = await import('node:fs/promises')
  const { run } = await import('../../lib/exec.ts')
  const name = `mote-${program}.service`
  // Not `new URL(..., import.meta.url)`: the bundler would treat the named file as a module and copy it, and the unit would
  // contain the path of the copy.
  const checkout = join(import.meta.dirname, '..', '..', '..')
  const template = await readFile(join(checkout, 'packaging', 'systemd', name), 'utf8')
  const unit = template.replaceAll('@MOTE@', systemdWord(join(checkout, 'bin', 'mote')))
  if (print) return out(`${unit}\n# ${program}.env\n${environment(program, '', set)}`)
  if (program === 'control') requireDashboard(checkout)
  const unitFile = join(root, 'etc/systemd/system', name)
  const envFile = join(root, 'etc/mote', `${program}.env`)
  await mkdir(join(root, 'etc/mote'), { recursive: true, mode: 0o755 })
  await mkdir(join(root, 'etc/systemd/system'), { recursive: true })
  const before = await readFile(envFile, 'utf8').catch(() => '')
  // The settings file contains secrets. Only systemd reads it, as root; the unit's user does not.
  await writeFile(envFile, environment(program, before, set), { mode: 0o600 })
  await writeFile(unitFile, unit)
  out(`${unitFile}\n${envFile}\n`)
  const missing = missingIn(environment(program, before, set))
  if (missing.length > 0)
    return out(`Fill in ${missing.join(', ')}, then: systemctl enable --now ${basename(unitFile)}\n`)
  if (root !== '/') return
  await run('systemctl', ['daemon-reload'])
  await run('systemctl', ['enable', name])
  // Restart a program that is already running, to apply the new unit and settings.
  await run('systemctl', ['restart', name])
  out(`${name} is running. Its log: journalctl -u ${name} -f\n`)
}

/**
 * Checks that the dashboard is built. The systemd unit may not write into the checkout, so the program cannot build the
 * dashboard when it starts.
 * @throws Error that names the command to run
 */
export function requireDashboard(checkout: string): void {
  if (!existsSync(join(checkout, 'dashboard', 'dist', 'index.html')))
    throw new Error(`the dashboard is not built: run npm run build in ${checkout} first`)
}

/**
 * Quotes one word of an `ExecStart=` line as systemd.service(5), "Command lines", and systemd.unit(5), "Specifiers",
 * require.
 */
export const systemdWord = (text: string) =>
  `"${text.replaceAll('%', '%%').replaceAll('$', '$$$$').replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`

/**
 * Merges settings: existing values are kept, given values are set, and required settings without a value get an empty
 * line.
 */
export function environment(program: Program, before: string, set: readonly string[]): string {
  const lines = new Map<string, string>()
  for (const line of [...settings[program], ...before.split('\n'), ...set]) {
    const at = line.indexOf('=')
    if (at <= 0 || line.startsWith('#')) continue
    if (!/^[A-Z][A-Z0-9_]*$/.test(line.slice(0, at)))
      throw new Error(`"${line.slice(0, at)}" is not a valid name of a setting`)
    if (line.includes('\n')) throw new Error(`the value of ${line.slice(0, at)} has a line break`)
    lines.set(line.slice(0, at), line.slice(at + 1))
  }
  return [...lines].map(([name, value]) => `${name}=${value}\n`).join('')
}

const missingIn = (text: string) => [...text.matchAll(/^([A-Z0-9_]+)=$/gm)].map(match => match[1] ?? '')
