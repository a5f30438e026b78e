/** Configures SSH for git: one key, and one host with known host keys, reached at the checked address only. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Worker } from '../worker/worker.ts'

export interface SshHost {
  readonly hostname: string
  readonly port: number
  /** The resolved IP address that was checked against the private networks. */
  readonly address: string
}

export interface SshCredential {
  readonly privateKey: string
  /** Lines of a known_hosts file (sshd(8)). */
  readonly knownHosts: string
}

/**
 * Writes key and configuration below `dir` in the worker's directory and returns the environment for git. The key must
 * be a private file (0600 in 0700), because ssh rejects a key file that others can read. The caller removes `dir` after
 * the fetch, so that the key does not remain there.
 */
export async function sshEnvironment(
  worker: Worker,
  dir: string,
  host: SshHost,
  { privateKey, knownHosts }: SshCredential,
): Promise<Record<string, string>> {
  await rm(join(worker.dir, dir), { recursive: true, force: true })
  await mkdir(join(worker.dir, dir), { recursive: true, mode: 0o700 })
  await worker.give(dir)
  const [key, known, config] = ['key', 'known_hosts', 'config'].map(name => join(dir, name)) as [string, string, string]
  const files = {
    [key]: privateKey,
    [known]: knownHosts,
    [config]: configText(host, worker.path(key), worker.path(known)),
  }
  for (const [file, text] of Object.entries(files)) {
    await writeFile(join(worker.dir, file), text, { mode: 0o600 })
    await worker.give(file)
  }
  return {
    // A shell runs this command, so it is a constant; the variable parts are in the environment.
    GIT_SSH_COMMAND: 'exec ssh -F "$MOTE_SSH_CONFIG"',
    GIT_SSH_VARIANT: 'ssh',
    MOTE_SSH_CONFIG: worker.path(config),
    SSH_AUTH_SOCK: '',
  }
}

/**
 * Returns an ssh_config(5). The host key is checked for the hostname, but the connection goes to the IP address that
 * was checked.
 */
function configText({ hostname, port, address }: SshHost, key: string, known: string): string {
  const quoted = (path: string) => `"${path.replaceAll('%', '%%')}"`
  const bare = hostname.replace(/^\[|\]$/g, '')
  const settings = {
    HostName: address,
    HostKeyAlias: port === 22 ? bare : `[${bare}]:${port}`,
    Port: port,
    IdentityFile: quoted(key),
    IdentitiesOnly: 'yes',
    IdentityAgent: 'none',
    BatchMode: 'yes',
    UserKnownHostsFile: quoted(known),
    GlobalKnownHostsFile: '/dev/null',
    StrictHostKeyChecking: 'yes',
    CheckHostIP: 'no',
    UpdateHostKeys: 'no',
    PreferredAuthentications: 'publickey',
    ProxyCommand: 'none',
    ForwardAgent: 'no',
    ForwardX11: 'no',
    PermitLocalCommand: 'no',
    ControlPath: 'none',
    LogLevel: 'ERROR',
    ConnectTimeout: 15,
    ServerAliveInterval: 10,
    ServerAliveCountMax: 3,
  }
  return `Host *\n${Object.entries(settings)
    .map(([name, value]) => `  ${name} ${value}\n`)
    .join('')}`
}
