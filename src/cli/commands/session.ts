/** Commands to sign in and out. */
import { hostname } from 'node:os'
import { Command, Option } from 'commander'
import type { Client } from '../../client/index.ts'
import { access, type AccessFlags, apiUrl, configFile, forget, keep, readRetained } from '../session.ts'
import { facts } from '../output.ts'
import { readAll } from '../standard-input.ts'
import { said, type Verb, verb } from '../verb.ts'
import { err, out } from '../terminal.ts'

interface LoginFlags extends AccessFlags {
  readonly browser?: boolean
  readonly email?: string
}

export const sessionCommands = (): Command[] => [login(), logout(), verb(whoami)]

const login = () =>
  new Command('login')
    .description('Sign in and store an access token on this computer')
    .addOption(new Option('--url <url>', 'URL of the API (MOTE_URL)'))
    .option('--token <token>', 'store this access token instead of creating one; - reads it from standard input')
    .option('--email <email>', 'e-mail address of the account; prompts if missing')
    .option('--browser', 'create a token in the dashboard and paste it here')
    .addHelpText(
      'after',
      '\nExample:\n  $ mote login --url https://cloud.example.com\n  $ mote login --token - < token.txt',
    )
    .action(async (flags: LoginFlags) => {
      const url = await apiUrl(flags)
      const token = await obtain(url, flags)
      const { createClient } = await import('../../client/index.ts')
      const client = createClient({ baseUrl: url, token: () => token })
      const me = await client.getMe()
      await keep({ ...(await readRetained()), url, token })
      out(`Signed in to ${url} as ${me.email}. The token is in ${configFile()}.\n${await firstStep(client)}`)
    })

/** Returns advice for a project without apps; empty if the project has apps, or if the token cannot list them. */
async function firstStep(client: Client): Promise<string> {
  const apps = await client.listApps({ query: { limit: 1 } }).catch(() => undefined)
  if (apps?.length !== 0) return ''
  return 'You have no apps yet. Try the sample: mote launch --sample. In the folder of an app: mote launch\n'
}

async function obtain(url: string, flags: LoginFlags): Promise<string> {
  if (flags.token === '-') return (await readAll(process.stdin)).trim()
  if (flags.token !== undefined) return flags.token
  const { ask, askSecret } = await import('../ask.ts')
  if (flags.browser) {
    const { openInBrowser } = await import('../browser.ts')
    const page = `${url}/account/tokens`
    err(`Create an access token at ${page}\n`)
    await openInBrowser(page)
    return askSecret('Paste it here', '--token -, and the token on the standard input')
  }
  const email = flags.email ?? (await ask('E-mail', '--email, or --token - with an access token'))
  return passwordLogin(
    url,
    email,
    await askSecret('Password', '--token - instead, with an access token on the standard input'),
  )
}

/** Signs in with a password to create a token, and ends the session afterwards. */
async function passwordLogin(url: string, email: string, password: string): Promise<string> {
  const { createClient } = await import('../../client/index.ts')
  const { ask } = await import('../ask.ts')
  const open = createClient({ baseUrl: url })
  const first = await open.login({ body: { email, password } })
  const answer = first.requires_2fa
    ? await open.login({
        body: {
          email,
          password,
          code: await ask('Code of your authenticator', '--token - instead, with an access token'),
        },
      })
    : first
  if (!answer.token) throw new Error('The server did not create a session. Try again.')
  const session = answer.token
  const client = createClient({ baseUrl: url, token: () => session })
  const { token } = await client.createToken({ body: { name: `mote on ${hostname()}` } })
  if (answer.refresh_token) await open.logout({ body: { refresh_token: answer.refresh_token } })
  return token
}

const logout = () =>
  new Command('logout').description('Revoke and delete the token of this computer').action(async () => {
    const kept = await readRetained()
    if (!kept.token) return out('You are not signed in.\n')
    const { client } = await access({ token: kept.token })
    const lastFour = kept.token.slice(-4)
    const mine = await client.listTokens().catch(() => [])
    const here = mine.find(({ token_last_four: four, name }) => four === lastFour && name === `mote on ${hostname()}`)
    if (here) await client.revokeToken({ token_id: here.id })
    await forget()
    out(here ? 'Signed out; the token is revoked.\n' : 'Signed out of this computer.\n')
  })

const whoami: Verb = {
  usage: 'whoami',
  says: 'Show the signed-in account, the API and the project',
  example: 'mote whoami --json',
  async run({ client, url, project }) {
    const me = await client.getMe()
    const text = facts({
      account: `${me.email} (${me.role})`,
      api: url,
      project: project ?? 'the default one',
      'two factors': me.totp_enabled ? 'on' : 'off',
      'private network': me.vpc_ipv6_prefix,
    })
    return said({ ...me, url, project: project ?? null }, text)
  },
}
