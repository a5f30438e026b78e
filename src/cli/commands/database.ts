/** Managed databases. */
import { spawn } from 'node:child_process'
import { createServer } from 'node:net'
import type { Command } from 'commander'
import type { Database, DatabaseConnection } from '../../client/index.ts'
import { confirmByName } from '../ask.ts'
import { age, facts, listing, status } from '../output.ts'
import { type Answer, type Call, noun, said, text, type Verb, wholeNumber } from '../verb.ts'

export const databaseCommands = (): Command[] => [
  noun('db', 'Managed Postgres', [
    ...[list, create, update, connect, connection, branches, branch, promote, removeBranch],
    ...[backups, snapshot, snapshots, restore, removeSnapshot, remove],
  ]),
]

/** By name or id. @throws Error when there is none */
async function databaseOf({ client, args }: Call): Promise<Database> {
  const [name = ''] = args
  const found = (await client.listDatabases()).find(one => one.name === name || one.id === name)
  if (found) return found
  throw new Error(`There is no database ${name}: mote db list`)
}

const list: Verb = {
  usage: 'list',
  says: 'Every database, and whether it answers',
  aliases: ['ls'],
  async run({ client }) {
    const all = await client.listDatabases()
    const rows = all.map(one => [
      ...[one.name, status(one.status), `${one.engine} ${one.postgres_version}`, `${one.vcpus} vCPU`],
      ...[`${one.memory_mib} MiB`, `${one.disk_mib} MiB`, age(one.created_at)],
    ])
    return said(
      all,
      listing(['NAME', 'STATUS', 'ENGINE', 'CPU', 'MEMORY', 'DISK', 'AGE'], rows, 'No databases: mote db create main'),
    )
  },
}

const create: Verb = {
  usage: 'create <name>',
  says: 'Make a database, and wait until it answers',
  options: [
    ['--version <major>', 'of Postgres'],
    ['--memory <mib>', 'memory of its VM'],
    ['--vcpus <count>', 'processors of its VM'],
    ['--disk <mib>', 'room for data'],
    ['--no-wait', 'answer at once'],
  ],
  example: 'mote db create main --version 15',
  async run(call) {
    const [name = ''] = call.args
    const body = {
      ...{ name, engine: 'postgres', postgres_version: wholeNumber(call.flags, 'version') },
      ...{ memory_mib: wholeNumber(call.flags, 'memory'), vcpus: wholeNumber(call.flags, 'vcpus') },
      disk_mib: wholeNumber(call.flags, 'disk'),
    }
    const made = await call.client.createDatabase({ body })
    if (call.flags.wait === false) return said(made, `Database ${name} is ${made.status}.`)
    const ready = await call.terminal.step(`Creating ${name}`, () => untilReady(call, made.id))
    return said(ready, `Database ${name} answers. Connect: mote db connect ${name}`)
  },
}

async function untilReady({ client, signal }: Call, id: string): Promise<Database> {
  for (;;) {
    signal.throwIfAborted()
    const now = (await client.listDatabases()).find(one => one.id === id)
    if (!now) throw new Error('The database is gone.')
    if (now.status === 'running') return now
    if (now.status === 'failed') throw new Error('The database could not be created: mote notifications')
    await new Promise(resolve => setTimeout(resolve, 500))
  }
}

const connect: Verb = {
  usage: 'connect <database> [psql-arguments...]',
  says: 'Open psql through a tunnel of its own; needs ssh and psql here',
  passThrough: true,
  example: "mote db connect main -- -c 'select version()'",
  run: async call => openPsql(call, await call.client.getDatabaseConnection({ id: (await databaseOf(call)).id })),
}

/**
 * ssh asks for its password through SSH_ASKPASS (OpenSSH 8.4, `SSH_ASKPASS_REQUIRE`): the token is in its environment,
 * never in its arguments.
 */
async function openPsql(call: Call, at: DatabaseConnection): Promise<Answer> {
  const port = await freePort()
  const password = passwordIn(at.psql_command)
  const ssh = spawn(
    'ssh',
    [
      ...['-N', '-o', 'StrictHostKeyChecking=accept-new', '-o', 'ExitOnForwardFailure=yes', '-o', 'LogLevel=ERROR'],
      ...['-L', `127.0.0.1:${port}:${at.database_host}:${at.database_port}`],
      ...['-p', String(at.ssh_port), `${at.ssh_user}@${at.ssh_host}`],
    ],
    {
      env: { ...process.env, SSH_ASKPASS: askpass, SSH_ASKPASS_REQUIRE: 'force', MOTE_ASKPASS: call.token },
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  )
  const ended = new Promise<never>((_, reject) => {
    ssh.once('error', cause => reject(new Error('ssh is needed here: apt-get install openssh-client', { cause })))
    ssh.once('exit', code => reject(new Error(`The tunnel ended (ssh said ${code}).`)))
  })
  ended.catch(() => undefined)
  try {
    await Promise.race([call.terminal.step('Opening the tunnel', () => untilListening(port, call.signal)), ended])
    const args = ['-h', '127.0.0.1', '-p', String(port), '-U', at.database_user, '-d', at.database_name, ...call.rest]
    const code = await runPsql(args, password)
    return { json: { exit_code: code }, text: '', code }
  } finally {
    ssh.kill()
  }
}

const askpass = new URL('../askpass.sh', import.meta.url).pathname

/** The pasted command carries the password for people; psql gets it in its environment. */
function passwordIn(command: string): string {
  return (
    /PGPASSWORD='?([^'\s]+)'?/.exec(command)?.[1] ?? decodeURIComponent(/\/\/[^:@/]+:([^@]+)@/.exec(command)?.[1] ?? '')
  )
}

function runPsql(args: readonly string[], password: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const psql = spawn('psql', args, { stdio: 'inherit', env: { ...process.env, PGPASSWORD: password } })
    psql.once('error', cause => reject(new Error('psql is needed here: apt-get install postgresql-client', { cause })))
    psql.once('exit', code => resolve(code ?? 1))
  })
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() =>
        typeof address === 'object' && address ? resolve(address.port) : reject(new Error('no free port')),
      )
    })
  })
}

async function untilListening(port: number, signal: AbortSignal): Promise<void> {
  const { connect: dial } = await import('node:net')
  const once = () =>
    new Promise<boolean>(resolve => {
      const socket = dial(port, '127.0.0.1')
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
      socket.once('connect', () => socket.destroy())
    })
  for (const deadline = Date.now() + 20_000; Date.now() < deadline; ) {
    signal.throwIfAborted()
    if (await once()) return
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  throw new Error('The tunnel did not open within 20 s.')
}

const connection: Verb = {
  usage: 'connection <database>',
  says: 'Commands to paste, for other tools',
  async run(call) {
    const at = await call.client.getDatabaseConnection({ id: (await databaseOf(call)).id })
    const text = facts({
      ...{ host: at.database_host, port: at.database_port, user: at.database_user, database: at.database_name },
      ...{ tunnel: at.ssh_tunnel_command, psql: at.psql_command },
    })
    return said(at, text)
  },
}

const branches: Verb = {
  usage: 'branches <database>',
  says: 'Its branches',
  async run(call) {
    const all = await call.client.listDatabaseBranches({ id: (await databaseOf(call)).id })
    const rows = all.map(one => [one.branch_name, status(one.status), one.is_current ? 'yes' : '', age(one.created_at)])
    return said(all, listing(['BRANCH', 'STATUS', 'CURRENT', 'AGE'], rows, 'No branches.'))
  },
}

const update: Verb = {
  usage: 'update <database> [setting=value...]',
  says: 'Change its size or settings, or let it rest; it restarts',
  options: [
    ['--memory <mib>', 'memory of its VM'],
    ['--vcpus <count>', 'processors of its VM'],
    ['--suspend', 'stop its VM; its disks stay'],
    ['--resume', 'start it again'],
  ],
  example: 'mote db update main work_mem=16MB --memory 2048',
  async run(call) {
    const settings = Object.fromEntries(
      call.rest.map(pair => {
        const at = pair.indexOf('=')
        if (at <= 0) throw new Error(`"${pair}" is not setting=value`)
        return [pair.slice(0, at), pair.slice(at + 1)]
      }),
    )
    const body = {
      ...{ memory_mib: wholeNumber(call.flags, 'memory'), vcpus: wholeNumber(call.flags, 'vcpus') },
      settings: call.rest.length > 0 ? settings : undefined,
      suspended: call.flags.suspend === true ? true : call.flags.resume === true ? false : undefined,
    }
    const answer = await call.client.updateDatabase({ id: (await databaseOf(call)).id, body })
    return said(answer, `${answer.name} is ${answer.status}.`)
  },
}

const branch: Verb = {
  usage: 'branch <database> <name>',
  says: 'Start a copy of it, from a snapshot or an instant',
  options: [
    ['--from <snapshot>', 'from this snapshot'],
    ['--at <instant>', 'as it was then (RFC 3339), or latest; from the backups'],
  ],
  example: 'mote db branch main try-it --from before-upgrade',
  async run(call) {
    const [, name = ''] = call.args
    const body = { name, from_snapshot: text(call.flags, 'from'), at: text(call.flags, 'at') }
    const made = await call.client.createDatabaseBranch({ id: (await databaseOf(call)).id, body })
    return said(made, `Branch ${name} is ${made.status}.`)
  },
}

const promote: Verb = {
  usage: 'promote <database> <branch>',
  says: 'Make a branch the current one',
  async run(call) {
    const [, branch_name = ''] = call.args
    const answer = await call.client.promoteDatabaseBranch({ id: (await databaseOf(call)).id, branch_name })
    return said(answer, `${branch_name} is the current branch.`)
  },
}

const removeBranch: Verb = {
  usage: 'delete-branch <database> <branch>',
  says: 'Delete a branch that is not the current one',
  async run(call) {
    const [, branch_name = ''] = call.args
    const answer = await call.client.deleteDatabaseBranch({ id: (await databaseOf(call)).id, branch_name })
    return said(answer, `Branch ${branch_name} is being deleted.`)
  },
}

const backups: Verb = {
  usage: 'backups <database>',
  says: 'How it is backed up, and whether the newest backup was restored and checked',
  async run(call) {
    const info = await call.client.getDatabaseBackups({ id: (await databaseOf(call)).id })
    const checked = info.retention_valid ? 'yes' : 'not yet'
    return said(
      info,
      facts({ strategy: info.backup_strategy, recovery: info.recovery_mode, status: info.status, checked }),
    )
  },
}

const snapshot: Verb = {
  usage: 'snapshot <database> <name>',
  says: 'Take a backup snapshot',
  async run(call) {
    const [, name = ''] = call.args
    const made = await call.client.createDatabaseSnapshot({ id: (await databaseOf(call)).id, body: { name } })
    return said(made, `Snapshot ${name} is ${made.status}.`)
  },
}

const snapshots: Verb = {
  usage: 'snapshots <database>',
  says: 'Backup snapshots, newest first',
  async run(call) {
    const all = await call.client.listDatabaseSnapshots({ id: (await databaseOf(call)).id })
    const rows = all.map(one => [one.name, status(one.status), one.size_bytes, age(one.created_at)])
    return said(all, listing(['NAME', 'STATUS', 'BYTES', 'AGE'], rows, 'No snapshots.'))
  },
}

const restore: Verb = {
  usage: 'restore <database> <snapshot>',
  says: 'Put it back to a snapshot; the state before is kept as another one',
  options: [['-y, --yes', 'do not ask']],
  async run(call) {
    const database = await databaseOf(call)
    const [, snapshot_name = ''] = call.args
    if (call.flags.yes !== true) {
      const { agree } = await import('../ask.ts')
      if (!(await agree(`Put ${database.name} back to ${snapshot_name}? What came later is kept as a snapshot.`)))
        return { json: null, text: 'Nothing was changed.', code: 1 }
    }
    const answer = await call.client.restoreDatabase({ id: database.id, body: { snapshot_name } })
    return said(answer, answer.message)
  },
}

const removeSnapshot: Verb = {
  usage: 'delete-snapshot <database> <snapshot>',
  says: 'Delete a backup snapshot',
  async run(call) {
    const [, snapshot_name = ''] = call.args
    const answer = await call.client.deleteDatabaseSnapshot({ id: (await databaseOf(call)).id, snapshot_name })
    return said(answer, answer.message)
  },
}

const remove: Verb = {
  usage: 'delete <database>',
  says: 'Delete a database with its branches and backups',
  options: [['-y, --yes', 'do not ask']],
  async run(call) {
    const database = await databaseOf(call)
    await confirmByName('the database', database.name, call.flags.yes === true)
    await call.client.deleteDatabase({ id: database.id })
    return said(null, `Database ${database.name} is being deleted.`)
  },
}
