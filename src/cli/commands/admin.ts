import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import { programSettings, readSettings } from '../../programs/settings.ts'
import type { Visit } from '../../programs/admin.ts'
import { natsConfig } from './nats-config.ts'
import { schemaCommands } from './schema.ts'
import { out } from '../terminal.ts'

interface Flags {
  readonly data?: string
  readonly databaseUrl?: string
  readonly json?: boolean
}

/** Result of a command: as JSON, as text, and whether the check that the command ran has succeeded. */
interface Outcome {
  readonly json: unknown
  readonly text: string
  /** False if the check found a problem: the exit code is then 1, although the command itself worked. */
  readonly ok?: boolean
}

/** Creates a subcommand that opens the database. `args` are the subcommand's positional arguments. */
function subcommand(
  usage: string,
  description: string,
  work: (visit: Visit, args: string[]) => Promise<Outcome>,
): Command {
  const { data, databaseUrl } = programSettings
  const [name, ...operands] = usage.split(' ')
  const command = new Command(name)
  for (const operand of operands) command.argument(operand)
  return command
    .description(description)
    .option(data.flag, `${data.help} (${data.env}, default ${data.fallback})`)
    .option(databaseUrl.flag, `${databaseUrl.help} (${databaseUrl.env})`)
    .option('--json', 'print the result as JSON')
    .action(async (...given: unknown[]) => {
      const command = given.at(-1)
      if (!(command instanceof Command)) throw new Error('BUG: commander calls actions with the command last')
      const flags = command.opts<Flags>()
      const { visit } = await import('../../programs/admin.ts')
      const outcome = await visit(readSettings(flags, process.env), process.env, at => work(at, command.args))
      out(flags.json ? `${JSON.stringify(outcome.json)}\n` : `${outcome.text}\n`)
      if (outcome.ok === false) process.exitCode = 1
    })
}

const createAccount = () =>
  subcommand(
    'create-account <email>',
    'Create an account with a generated password; the first one is Admin',
    async ({ db, defaultPlan }, [email = '']) => {
      const { createAccountByOperator } = await import('../../control/auth/index.ts')
      const password = randomBytes(12).toString('base64url')
      const role = await createAccountByOperator(db, { email, password, plan: defaultPlan() })
      return {
        json: { email, password, role },
        text: `Created ${email} (${role}).\nPassword  ${password}\nIt is not shown again. Change it after signing in.`,
      }
    },
  )

const setRole = () =>
  subcommand('set-role <email> <role>', 'Make an account Admin or User', async ({ db }, [email = '', role]) => {
    if (role !== 'Admin' && role !== 'User') throw new Error(`"${role}" is not a role. Use Admin or User.`)
    const { setAccountRole } = await import('../../control/auth/index.ts')
    await setAccountRole(db, email, role)
    return { json: { email, role }, text: `${email} is ${role} now.` }
  })

const revokeSessions = () =>
  subcommand('revoke-sessions <email>', 'End all sessions of an account', async ({ db }, [email = '']) => {
    const { revokeAllSessions } = await import('../../control/auth/index.ts')
    const ended = await revokeAllSessions(db, email)
    return { json: { email, ended }, text: `Ended ${ended} sessions of ${email}. Access tokens remain valid.` }
  })

const link = () =>
  subcommand(
    'link <purpose> <email>',
    'Print a link for a user who cannot receive mail: verify (the address), reset (the password) or change (to the requested address)',
    async ({ db, vault, publicUrl }, [purpose = '', email = '']) => {
      if (purpose !== 'verify' && purpose !== 'reset' && purpose !== 'change')
        throw new Error(`"${purpose}" is not a purpose. Use verify, reset or change.`)
      const { printLink } = await import('../../control/auth/index.ts')
      const url = await printLink({ db, vault: vault(), publicUrl: publicUrl() }, purpose, email)
      return {
        json: { email, purpose, url },
        text: `${url}\nAnyone who opens this link acts as ${email}. Give it to that person only.`,
      }
    },
  )

const rotateKey = () =>
  subcommand(
    'rotate-key',
    'Encrypt every stored secret with the newest key; all control planes must list that key first',
    async ({ db, vault }) => {
      const { resealAll } = await import('../../control/auth/index.ts')
      const columns = await resealAll(db, vault())
      const unreadable = columns.reduce((sum, column) => sum + column.unreadable, 0)
      const advice =
        'Unreadable secrets were encrypted with a key that is not configured. Add that key to MOTE_SECRET_KEYS.'
      const text = table(
        ['column', 'resealed', 'current', 'unreadable'],
        columns.map(c => [c.column, c.resealed, c.current, c.unreadable]),
      )
      return { json: { columns }, text: unreadable > 0 ? `${text}\n${advice}` : text, ok: unreadable === 0 }
    },
  )

const verifyAudit = () =>
  subcommand(
    'verify [heads]',
    'Verify the hash chain of the audit log, and compare it with the signed heads in a file',
    async ({ db, vault }, [file]) => {
      const { readHeads, verifyAuditChain } = await import('../../control/audit/index.ts')
      const heads = file === undefined ? [] : readHeads(vault(), await readFile(file, 'utf8'))
      if (file !== undefined && heads.length === 0) throw new Error(`${file} contains no signed head of an audit log`)
      const verdict = await verifyAuditChain(db, vault(), heads)
      const text = verdict.intact
        ? `The audit log is intact: ${verdict.rows} sealed rows up to position ${verdict.lastPosition}, which has the hash\n${verdict.lastHash}` +
          (heads.length > 0
            ? `\nIt matches ${heads.length} signed heads.`
            : '\nTo detect a truncated log, compare it with signed heads (MOTE_AUDIT_HEADS).')
        : `The audit log is NOT intact: at position ${verdict.at}, ${verdict.because}.`
      return { json: verdict, text, ok: verdict.intact }
    },
  )

const sweeps = () =>
  subcommand('sweeps', 'Show the last run of each sweep', async ({ db }) => {
    const { listSweepRuns } = await import('../../engine/sweeper.ts')
    const runs = await listSweepRuns(db)
    const rows = runs.map(run => [
      run.name,
      run.started_at?.toISOString() ?? 'never',
      run.duration_ms ?? '',
      run.runs,
      run.failures_in_a_row,
      run.error ?? resultText(run.result),
    ])
    const ok = runs.every(run => run.error === null)
    return { json: runs, text: table(['sweep', 'last run', 'ms', 'runs', 'failed', 'result'], rows), ok }
  })

const alerts = () =>
  subcommand('alerts', 'Show workflows that take longer than expected', async ({ db }) => {
    const { openAlerts } = await import('../../engine/alerts.ts')
    const open = await openAlerts(db)
    const rows = open.map(a => [a.openedAt.toISOString(), a.kind, a.id, a.phase, a.attempt ?? '', a.lastError ?? ''])
    const text = open.length === 0 ? 'No alerts.' : table(['since', 'kind', 'id', 'phase', 'tries', 'last error'], rows)
    return { json: open, text }
  })

const cleanRegistry = () =>
  subcommand(
    'registry-clean',
    'Remove images of deleted projects and apps from the registry of the installation, which must be stopped',
    async ({ db, data }) => {
      const { cleanRegistry } = await import('../../programs/registry-clean.ts')
      const cleaned = await cleanRegistry(db, data)
      const { removed, bytesBefore, bytesAfter } = cleaned
      const mib = (bytes: number) => `${Math.ceil(bytes / 2 ** 20)} MiB`
      const text = `Removed ${removed.length} repositories${removed.map(name => `\n  ${name}`).join('')}\nThe registry had ${mib(bytesBefore)} and has ${mib(bytesAfter)}.`
      return { json: cleaned, text }
    },
  )

export function adminCommands(): Command {
  const admin = new Command('admin').description(
    'Operate an installation: accounts, keys, audit log, sweeps, alerts, registry, NATS users',
  )
  const audit = new Command('audit').description('The audit log').addCommand(verifyAudit())
  const accounts = [createAccount(), setRole(), revokeSessions(), link()]
  const all = [...accounts, rotateKey(), audit, sweeps(), alerts(), cleanRegistry(), schemaCommands(), natsConfig()]
  for (const command of all) admin.addCommand(command)
  return admin
}

const resultText = (result: Readonly<Record<string, number>> | null) =>
  Object.entries(result ?? {})
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')

function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const lines = [head, ...rows.map(row => row.map(String))]
  const widths = head.map((_, i) => Math.max(...lines.map(line => line[i]?.length ?? 0)))
  return lines
    .map(line =>
      line
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
