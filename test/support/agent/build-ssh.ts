/** A Git host over SSH: the real sshd on loopback, which accepts one key. */
import { spawn } from 'node:child_process'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { until } from '../wait.ts'
import { type WorkTree, workTree } from '../../../src/cli/demo/work-tree.ts'
import { run } from '../../../src/lib/exec.ts'
import { findProgram } from '../../../src/lib/programs.ts'
import { testDir } from './agent.ts'

export interface SshGitHost extends AsyncDisposable {
  readonly address: string
  readonly port: number
  /** The host's line for known_hosts, as `ssh-keyscan` prints it. */
  readonly knownHosts: string
  /** Returns the URL of a repository: `ssh://user@address:port/path/to/<name>.git` */
  urlOf(name: string): string
  /** Returns the scp-style address of a repository: `user@address:path/to/<name>.git` */
  scpOf(name: string): string
  create(name: string): Promise<WorkTree>
  /** Gives read access to this key only; earlier keys lose their access. */
  allow(publicKey: string): Promise<void>
}

/** Starts the Git host. @param port of sshd; 22 needs root */
export async function sshGitHost(port = 20_000 + (process.pid % 20_000)): Promise<SshGitHost> {
  await using stack = new AsyncDisposableStack()
  const dir = stack.use(await testDir())
  // An address of 127.0.0.0/8 for each process, so that test files that run in parallel do not collide.
  const address = `127.${100 + (process.pid >> 16)}.${(process.pid >> 8) & 255}.${process.pid & 255 || 1}`
  const at = (name: string) => join(dir.path, name)
  await chmod(dir.path, 0o755)
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', at('host_key')])
  await writeFile(at('allowed'), '')
  await writeFile(at('sshd_config'), configText(dir.path, address, port))
  if (process.getuid?.() === 0) await mkdir('/run/sshd', { recursive: true, mode: 0o755 })
  const program = (await findProgram('sshd')) ?? 'sshd'
  const child = spawn(program, ['-D', '-e', '-f', at('sshd_config')], { stdio: 'ignore' })
  stack.defer(() => void child.kill('SIGTERM'))
  await until(() => answers(address, port), { what: 'sshd listens', everyMs: 50 })
  const [kind, key] = (await readFile(at('host_key.pub'), 'utf8')).split(' ')
  const name = port === 22 ? address : `[${address}]:${port}`
  const { username } = userInfo()
  const owned = stack.move()
  return {
    address,
    port,
    knownHosts: `${name} ${kind} ${key}\n`,
    urlOf: repository => `ssh://${username}@${address}:${port}${at(repository)}.git`,
    // The path of an scp-style address is relative to the home directory.
    scpOf: repository => `${username}@${address}:${'../'.repeat(9)}${at(repository).slice(1)}.git`,
    async create(repository) {
      await run('git', ['init', '--bare', '--quiet', '--initial-branch=main', `${at(repository)}.git`])
      return workTree(at(`${repository}-tree`), `${at(repository)}.git`)
    },
    allow: publicKey => writeFile(at('allowed'), `${publicKey}\n`),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Returns the configuration of sshd; see sshd_config(5). */
const configText = (dir: string, address: string, port: number) => `ListenAddress ${address}:${port}
HostKey ${dir}/host_key
PidFile none
AuthorizedKeysFile ${dir}/allowed
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
`

const answers = (host: string, port: number) =>
  new Promise<boolean>(resolve => {
    const socket = connect({ host, port })
    socket.once('data', () => resolve(true)).once('error', () => resolve(false))
    socket.once('data', () => socket.destroy())
  })
