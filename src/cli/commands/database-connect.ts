/** Commands to connect to a managed database: psql through an SSH tunnel, and the data for other tools. */
import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Database, DatabaseConnection, TunnelPassword } from '../../client/index.ts'
import { facts } from '../output.ts'
import { type Answer, type Call, said, type Verb } from '../verb.ts'

/** Finds a database by name or id. @throws Error if there is none */
export async function databaseOf({ client, args }: Call): Promise<Database> {
  const [name = ''] = args
  const found = (await client.listDatabases()).find(one => one.name === name || one.id === name)
  if (found) return found
  throw new Error(`No database named ${name}. List databases: mote db list`)
}

export const connect: Verb = {
  usage: 'connect <database> [psql-arguments...]',
  says: 'Connect to a database with psql through an SSH tunnel; needs ssh and psql installed',
  passThrough: true,
  example: "mote db connect main -- -c 'select version()'",
  async run(call) {
    const { id } = await databaseOf(call)
    const at = await call.client.getDatabaseConnection({ id })
    // Send the bastion a password that is valid for one login to this database, instead of the account's token.
    const login = await call.client.createTunnelPassword({ id, body: {} })
    return openPsql(call, at, login)
  },
}

/**
 * Opens an SSH tunnel through the bastion and runs psql over it. ssh reads its password through SSH_ASKPASS (OpenSSH
 * 8.4, `SSH_ASKPASS_REQUIRE`), so the password is in its environment, not in its arguments. The bastion must present a
 * host key that the API has returned.
 */
async function openPsql(call: Call, at: DatabaseConnection, login: TunnelPassword): Promise<Answer> {
  if (at.ssh_host_keys.length === 0)
    throw new Error('No gateway has reported the host key of its SSH bastion yet. Try again in a minute.')
  await using known = await knownHosts(at.ssh_host_keys)
  const port = await freePort()
  const password = passwordIn(at.psql_command)
  const ssh = spawn(
    'ssh',
    [
      '-N',
      ...hostKeyArgs(known.file),
      ...['-o', 'ExitOnForwardFailure=yes', '-o', 'LogLevel=ERROR'],
      // Offer none of the user's keys, and try the password only once, because it is valid for one try.
      ...['-o', 'PreferredAuthentications=password', '-o', 'NumberOfPasswordPrompts=1'],
      ...['-L', `127.0.0.1:${port}:${at.database_host}:${at.database_port}`],
      ...['-p', String(at.ssh_port), `${login.ssh_user}@${at.ssh_host}`],
    ],
    {
      env: { ...process.env, SSH_ASKPASS: askpass, SSH_ASKPASS_REQUIRE: 'force', MOTE_ASKPASS: login.password },
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  )
  const ended = new Promise<never>((_, reject) => {
    ssh.once('error', cause =>
      reject(new Error('ssh is not installed. Install it: apt-get install openssh-client', { cause })),
    )
    ssh.once('exit', code => reject(new Error(`The tunnel was closed (ssh exited with ${code}).`)))
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

const bastionAlias = 'mote-bastion'

/** Returns ssh options that accept only the host keys in the file, regardless of the user's known hosts. */
export const hostKeyArgs = (file: string): string[] =>
  [
    'StrictHostKeyChecking=yes',
    `HostKeyAlias=${bastionAlias}`,
    `UserKnownHostsFile=${file}`,
    'GlobalKnownHostsFile=/dev/null',
    'UpdateHostKeys=no',
  ].flatMap(option => ['-o', option])

/** Writes host keys to a temporary known_hosts file. @param keys as returned by the API: `ssh-ed25519 AAAA...` */
export async function knownHosts(keys: readonly string[]) {
  const dir = await mkdtemp(join(tmpdir(), 'mote-ssh-'))
  const file = join(dir, 'known_hosts')
  await writeFile(file, keys.map(key => `${bastionAlias} ${key}\n`).join(''), { mode: 0o600 })
  return { file, [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) }
}

const askpass = new URL('../askpass.sh', import.meta.url).pathname

/** Extracts the password from the psql command that the API returns for pasting. */
function passwordIn(command: string): string {
  return (
    /PGPASSWORD='?([^'\s]+)'?/.exec(command)?.[1] ?? decodeURIComponent(/\/\/[^:@/]+:([^@]+)@/.exec(command)?.[1] ?? '')
  )
}

function runPsql(args: readonly string[], password: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const psql = spawn('psql', args, { stdio: 'inherit', env: { ...process.env, PGPASSWORD: password } })
    psql.once('error', cause =>
      reject(new Error('psql is not installed. Install it: apt-get install postgresql-client', { cause })),
    )
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

export const connection: Verb = {
  usage: 'connection <database>',
  says: 'Show the commands with which other tools connect to a database',
  async run(call) {
    const at = await call.client.getDatabaseConnection({ id: (await databaseOf(call)).id })
    const text = facts({
      host: at.database_host,
      port: at.database_port,
      user: at.database_user,
      database: at.database_name,
      tunnel: at.ssh_tunnel_command,
      psql: at.psql_command,
    })
    return said(at, text)
  },
}

export const url: Verb = {
  usage: 'url <database>',
  says: 'Print the address of a database for apps of its project; contains the password',
  example: 'mote db url main | mote env set DATABASE_URL=- --app shop',
  async run(call) {
    const { id, name } = await databaseOf(call)
    const at = await call.client.getDatabaseConnection({ id })
    const login = `${encodeURIComponent(at.database_user)}:${encodeURIComponent(passwordIn(at.psql_command))}`
    // Use the name that apps of the project resolve; only the bastion resolves `database_host`.
    const address = `postgres://${login}@${name}.internal:${at.database_port}/${at.database_name}?sslmode=require`
    return said({ url: address }, address)
  },
}
