/** Commands for the credentials of the project for image registries. */
import type { Command } from 'commander'
import { age, listing } from '../output.ts'
import { readAll } from '../standard-input.ts'
import { type Answer, type Call, noun, said, text, type Verb } from '../verb.ts'

export const registryCommands = (): Command[] => [
  noun('registry', 'Image registries that the project signs in to', [login, list, logout]),
]

const login: Verb = {
  usage: 'login [host]',
  says: 'Store a user name and password for the private images of a registry; without a host, sign Docker in to the registry of the installation',
  options: [
    ['-u, --username <name>', 'user name at the registry; prompts if missing'],
    ['--password-stdin', 'read the password or token from standard input'],
  ],
  example: 'mote registry login ghcr.io -u ada --password-stdin < token.txt',
  async run(call) {
    const { args, client, flags } = call
    const [given = ''] = args
    if (given === '') return ownLogin(call)
    const { ask, askSecret } = await import('../ask.ts')
    const username = text(flags, 'username') ?? (await ask('User name', '--username'))
    const password = flags['passwordStdin']
      ? (await readAll(process.stdin)).replace(/\r?\n$/, '')
      : await askSecret('Password or token', '--password-stdin, and the password on the standard input')
    const kept = await client.putRegistryCredential({ body: { host: hostOf(given), username, password } })
    return said(kept, `Images of ${kept.host} are pulled as ${kept.username}. Deploy one: mote deploy --image <image>`)
  },
}

/** Container tools that store logins to registries; their `login` commands have the same flags. */
const containerTools = ['docker', 'podman', 'skopeo'] as const

/** Signs the first installed container tool in to the installation's registry, with the access token of the CLI. */
async function ownLogin({ client, token }: Call): Promise<Answer> {
  const own = await client.getRegistry()
  if (own.host === null)
    throw new Error(
      'This installation has no registry. Install docker-registry on the control plane and start that again, or give the host of another registry.',
    )
  const { hasProgram } = await import('../../lib/programs.ts')
  const args = ['login', own.host, '--username', 'mote', '--password-stdin']
  const usage = `Push images as ${own.prefix}/<name>:<tag>, and deploy one: mote deploy --image ${own.prefix}/<name>:<tag>`
  for (const program of containerTools)
    if (token && (await hasProgram(program))) {
      const { run } = await import('../../lib/exec.ts')
      await run(program, args, { input: token, network: true }).catch((cause: unknown) => {
        throw refusal(own.host ?? '', cause)
      })
      return said(own, `Signed ${program} in to ${own.host}. ${usage}`)
    }
  return said(own, `docker ${args.join(' ')} < <file with an access token that may deploy>\n${usage}`)
}

/**
 * Adds advice to the error of a failed login. Container tools accept a registry without TLS only on the same computer,
 * and try HTTPS there first, so their error is about HTTPS.
 */
export function refusal(host: string, cause: unknown): unknown {
  if (!(cause instanceof Error)) return cause
  if (/unauthorized|authentication required/i.test(cause.message))
    return new Error(
      `The registry ${host} refuses this access token. It takes personal access tokens that may deploy, not the token of a session: sign in with mote login, or make one with mote tokens create.`,
    )
  if (!cause.message.includes('HTTP response to HTTPS client')) return cause
  return new Error(
    `The registry ${host} has no TLS. Ask the operator for a proxy with TLS in front of it (MOTE_REGISTRY_URL), or add ${host} to the insecure registries of Docker.`,
    { cause },
  )
}

const list: Verb = {
  usage: 'list',
  says: 'List the registries that the project signs in to',
  aliases: ['ls'],
  async run({ client }) {
    const all = await client.listRegistryCredentials({})
    const rows = all.map(one => [one.host, one.username, age(one.updated_at)])
    return said(all, listing(['REGISTRY', 'USER', 'SET'], rows, 'No registries. Sign in to one: mote registry login'))
  },
}

const logout: Verb = {
  usage: 'logout <host>',
  says: 'Delete the credential for a registry; running VMs continue',
  async run({ args: [given = ''], client }) {
    const host = hostOf(given)
    return said(await client.deleteRegistryCredential({ host }), `Images of ${host} are pulled without a password.`)
  },
}

/** Returns the host of a registry. It may be given as a URL, as Docker allows. */
const hostOf = (given: string) => given.replace(/^https?:\/\//, '').replace(/\/.*/s, '')
