/** What operators do with hosts that have joined, through the API. */
import { Command, Option } from 'commander'

interface Host {
  readonly id: string
  readonly name: string
  readonly status: string
  readonly cordoned: boolean
  readonly draining: boolean
  readonly arch: string
  readonly vcpus: number
  readonly used_vcpus: number
  readonly memory_mib: number
  readonly used_memory_mib: number
  readonly vms: number
  readonly strays: number
}
interface Flags {
  readonly url: string
  readonly token?: string
  readonly json?: boolean
  readonly force?: boolean
}

const path = (name: string) => `/v1/admin/hosts/${encodeURIComponent(name)}`

export function fleetCommands(): Command[] {
  return [
    command('list', 'Hosts, what they have and what is in use', flags => show(flags, 'GET', '/v1/admin/hosts')),
    named('cordon', 'Give it no new VM', (flags, name) => show(flags, 'POST', `${path(name)}/cordon`)),
    named('uncordon', 'End cordon and drain', (flags, name) => show(flags, 'POST', `${path(name)}/uncordon`)),
    named('drain', 'Replace its VMs on other hosts, one by one', (flags, name) =>
      show(flags, 'POST', `${path(name)}/drain`),
    ),
    named('remove', 'Take a host away for good', async (flags, name) => {
      await call(flags, 'DELETE', `${path(name)}${flags.force ? '?force=true' : ''}`)
      process.stdout.write(flags.json ? '{"status":"removed"}\n' : `Host ${name} is removed. Stop its agent.\n`)
    }).option('--force', 'also when it has VMs: they start elsewhere, and the host is never asked again'),
  ]
}

function command(name: string, description: string, run: (flags: Flags) => Promise<void>): Command {
  return withAccess(new Command(name).description(description)).action((flags: Flags) => run(flags))
}

function named(name: string, description: string, run: (flags: Flags, host: string) => Promise<void>): Command {
  return withAccess(new Command(name).argument('<host>', 'name or id').description(description)).action(
    (host: string, flags: Flags) => run(flags, host),
  )
}

const withAccess = (made: Command) =>
  made
    .addOption(new Option('--url <url>', 'where the API is').env('MOTE_URL').default('http://localhost:7070'))
    .addOption(new Option('--token <token>', 'an access token of an Admin').env('MOTE_TOKEN'))
    .option('--json', 'as JSON')

async function call<T>({ url, token }: Flags, method: string, target: string): Promise<T> {
  if (!token) throw new Error('An access token of an Admin is needed: set MOTE_TOKEN, or give --token.')
  const { apiClient } = await import('../api.ts')
  return apiClient(url.replace(/\/$/, ''), () => token).call<T>(method, target)
}

async function show(flags: Flags, method: string, target: string): Promise<void> {
  const answer = await call<Host | Host[]>(flags, method, target)
  if (flags.json) return void process.stdout.write(`${JSON.stringify(answer)}\n`)
  const rows = [answer]
    .flat()
    .map(host => [
      host.name,
      [host.status, host.draining ? 'draining' : host.cordoned ? 'cordoned' : ''].filter(Boolean).join(', '),
      `${host.used_vcpus}/${host.vcpus}`,
      `${host.used_memory_mib}/${host.memory_mib}`,
      host.strays > 0 ? `${host.vms} (${host.strays} given up)` : String(host.vms),
      host.id,
    ])
  process.stdout.write(table([['NAME', 'STATUS', 'VCPUS', 'MEMORY MIB', 'VMS', 'ID'], ...rows]))
}

/** Columns as wide as their widest cell. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0))) ?? []
  return rows
    .map(
      row =>
        `${row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}
