/**
 * Chooses the account under which the embedded server runs. PostgreSQL refuses to run as root, so root starts it under
 * an unprivileged account; other users start it as themselves.
 */
import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { childEnv } from '../../lib/child-env.ts'

const run = promisify(execFile)

export interface Account {
  readonly uid: number
  readonly gid: number
}

/**
 * Account that is created if the host has no `postgres` account. initdb requires a passwd entry, so a bare uid is not
 * enough.
 */
const ownAccount = 'mote-postgres'

/**
 * Returns the account for the server; undefined for the current user. For root: the owner of an existing cluster (so
 * that a later installation of PostgreSQL does not change who may read it), else `postgres`, else `mote-postgres`,
 * which useradd creates.
 */
export async function serverAccount(clusterDir: string): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const existing = await stat(clusterDir).catch(() => undefined)
  if (existing !== undefined && existing.uid !== 0) return { uid: existing.uid, gid: existing.gid }
  const known = (await passwdEntry('postgres')) ?? (await passwdEntry(ownAccount))
  if (known !== undefined) return known
  await run('/usr/sbin/useradd', ['--system', '--no-create-home', '--shell', '/usr/sbin/nologin', ownAccount], {
    env: childEnv('useradd'),
  })
  const made = await passwdEntry(ownAccount)
  if (made === undefined)
    throw new Error(`useradd ${ownAccount} left no entry in /etc/passwd; make that account by hand`)
  return made
}

async function passwdEntry(name: string): Promise<Account | undefined> {
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n')
  const [, , uid, gid] = lines.find(line => line.startsWith(`${name}:`))?.split(':') ?? []
  return uid === undefined || gid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) }
}

export interface Launch {
  readonly command: string
  readonly args: readonly string[]
  readonly uid?: number
  readonly gid?: number
}

/**
 * Returns the command that starts `program` under `account`. If a parent directory of a path in `mustReach` is closed
 * to the account (for example a checkout below /root, mode 0700), the program gets one Linux capability that lets it
 * pass directories. Opening the directories to all users, or moving the data out of `--data`, would be worse.
 */
export async function launchAs(
  account: Account | undefined,
  program: string,
  args: readonly string[],
  mustReach: readonly string[],
): Promise<Launch> {
  if (account === undefined) return { command: program, args }
  const closed = (await Promise.all(mustReach.map(path => firstClosedParent(path, account)))).find(Boolean)
  if (closed === undefined) return { command: program, args, ...account }
  const capability = await passingCapability()
  if (capability === undefined) {
    const account_ = `uid ${account.uid}`
    throw new Error(
      `PostgreSQL runs as ${account_} and cannot enter ${closed}: run "chmod o+x ${closed}" or choose another --data`,
    )
  }
  const identity = ['--reuid', String(account.uid), '--regid', String(account.gid), '--clear-groups']
  const ambient = ['--inh-caps', `+${capability}`, '--ambient-caps', `+${capability}`]
  return { command: '/usr/bin/setpriv', args: [...identity, ...ambient, program, ...args] }
}

async function firstClosedParent(path: string, account: Account): Promise<string | undefined> {
  const parents: string[] = []
  for (let dir = dirname(path); dir !== dirname(dir); dir = dirname(dir)) parents.unshift(dir)
  for (const dir of parents) {
    const { mode, uid, gid } = await stat(dir)
    const mayEnter = uid === account.uid ? mode & 0o100 : gid === account.gid ? mode & 0o010 : mode & 0o001
    if (mayEnter === 0) return dir
  }
  return undefined
}

// Linux capabilities that let a process pass closed directories, with their bit numbers from linux/capability.h. The
// first one permits less, but containers often have only the second.
const capabilities = [
  { name: 'dac_read_search', bit: 2n },
  { name: 'dac_override', bit: 1n },
] as const

async function passingCapability(): Promise<string | undefined> {
  const status = await readFile('/proc/self/status', 'utf8').catch(() => '')
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0'}`)
  const usable = await access('/usr/bin/setpriv', constants.X_OK).then(
    () => true,
    () => false,
  )
  return usable ? capabilities.find(({ bit }) => (effective >> bit) & 1n)?.name : undefined
}
