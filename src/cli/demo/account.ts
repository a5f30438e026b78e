import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ApiFailure, type Client, createClient } from '../../client/index.ts'

export interface DemoAccount {
  readonly email: string
  readonly password: string
  readonly client: Client
}

/** Returns the demo's user, who is created once per data directory and reused at later starts. */
export async function demoAccount(apiUrl: string, dataDir: string): Promise<DemoAccount> {
  const file = join(dataDir, 'demo.json')
  const stored = await readFile(file, 'utf8').then(JSON.parse, () => undefined)
  const account: { email: string; password: string } = stored ?? {
    email: 'demo@mote.localhost',
    password: randomBytes(9).toString('base64url'),
  }
  if (!stored) await writeFile(file, `${JSON.stringify(account)}\n`, { mode: 0o600 })
  const anonymous = createClient({ baseUrl: apiUrl })
  const signIn = () => anonymous.login({ body: account })
  const { token } = await signIn().catch(async (cause: unknown) => {
    if (!(cause instanceof ApiFailure) || cause.status !== 401) throw cause
    await anonymous.register({ body: { ...account, captcha_id: '', captcha_answer: '' } })
    return signIn()
  })
  return { ...account, client: createClient({ baseUrl: apiUrl, token: () => token ?? undefined }) }
}
