// Not repeated on the distribution's PostgreSQL: this file tests the CLI, not the database.
/**
 * Every prompt of the CLI: if there is no terminal, the command fails and names the flag or argument that answers the
 * prompt.
 */
import { globSync, readFileSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { cliSystem } from '../support/cli-system.ts'
import { until } from '../support/wait.ts'

interface Question {
  /** Part of the prompt's text in the source. */
  readonly asks: string
  readonly command: string
  /** Flag or argument that the error message must name. */
  readonly names: string
  readonly files?: Readonly<Record<string, string>>
  /** Why this prompt is never reached without a terminal. */
  readonly never?: string
}

const questions: readonly Question[] = [
  { asks: 'Apply this plan?', command: 'compose up', names: '', never: 'fails and names --yes before it asks' },
  { asks: 'the stack', command: 'compose down --stack shop', names: '--yes' },
  { asks: 'Apply this plan?', command: 'deploy', names: '', never: 'fails and names --yes before it asks' },
  { asks: 'question, `--set ${name}=...`', command: 'templates deploy', names: '', never: 'templates.test.ts' },
  { asks: 'the project', command: 'projects delete other', names: '--yes' },
  { asks: 'Paste it here', command: 'login', names: '--token' },
  { asks: 'E-mail', command: 'login', names: '--email' },
  { asks: 'Password', command: 'login --email ada@example.com', names: '--token' },
  {
    asks: 'Code of your authenticator',
    command: 'login',
    names: '',
    never: 'follows the password, which is asked first',
  },
  {
    asks: 'Deploy the services of',
    command: 'launch',
    names: '--image, --git-url or --upload',
    files: { 'compose.yaml': 'services: {}' },
    never: 'says what compose up would do, and continues',
  },
  { asks: 'Name of the app?', command: 'launch', names: '', never: 'the name of the folder is used' },
  { asks: 'Which image?', command: 'launch', names: '', never: 'only after the choice of an image' },
  { asks: 'Which repository?', command: 'launch', names: '', never: 'only after the choice of a repository' },
  { asks: 'Which port', command: 'launch', names: '', never: 'the port that fits the folder is used' },
  { asks: 'What do you want to deploy?', command: 'launch', names: '--image, --git-url or --upload' },
  { asks: 'the volume', command: 'volumes delete data', names: '--yes' },
  { asks: 'Roll ', command: 'db restore main first', names: '--yes' },
  { asks: 'the database', command: 'db delete main', names: '--yes' },
  { asks: 'User name', command: 'registry login ghcr.io', names: '--username' },
  { asks: 'Password or token', command: 'registry login ghcr.io -u ada', names: '--password-stdin' },
  { asks: 'the group', command: 'env-groups delete shared', names: '--yes' },
  { asks: 'the app', command: 'apps delete web', names: '--yes' },
  { asks: 'the app', command: 'destroy web', names: '--yes' },
  { asks: 'Replace ', command: 'env pull --app web', names: '--yes', files: { '.env': 'A=1\n' } },
  { asks: 'Which app does this folder belong to?', command: 'link', names: 'mote link web' },
]

vi.setConfig({ testTimeout: 60_000 })

const { user, home, mote } = await cliSystem()
beforeAll(async () => {
  await user.post('/v1/projects', { name: 'Other' })
  await user.post('/v1/apps', { name: 'web', git_url: '', stack: 'shop' })
  await user.post('/v1/volumes', { name: 'data', size_mib: 64 })
  const made = (await user.post('/v1/databases', { name: 'main', engine: 'postgres' })).body
  const state = async () => (await user.get(`/v1/databases/${made.id}`)).body.status
  await until(async () => (await state()) === 'running', { what: 'the database', timeoutMs: 40_000 })
}, 120_000)

it('every prompt in the sources has a case', () => {
  const calls = globSync('src/cli/**/*.ts')
    .filter(file => !file.endsWith('.test.ts') && !file.endsWith('/ask.ts') && !file.includes('/demo/'))
    .flatMap(file => [
      ...readFileSync(file, 'utf8').matchAll(
        /(?<![\w.])(?:ask|askSecret|choose|agree|confirmByName)\(\s*(['"`][^\n]*|question,[^\n]*)/g,
      ),
    ])
    .map(([, text]) => text ?? '')
  for (const text of calls)
    expect(
      questions.some(({ asks }) => text.includes(asks)),
      `not in the table: ${text}`,
    ).toBe(true)
  expect(questions).toHaveLength(calls.length)
})

describe('without a terminal', () => {
  const reached = questions.filter(({ never }) => never === undefined)
  it.each(reached.map(one => [one.command, one] as const))(
    'mote %s fails and names the missing flag',
    async (_, question) => {
      const cwd = await mkdtemp(join(home, 'folder-'))
      for (const [name, text] of Object.entries(question.files ?? {})) await writeFile(join(cwd, name), text)
      const words = question.command.split(' ')
      const { code, err } = await mote.run(words, { cwd })
      expect([code, err]).toEqual([1, expect.stringContaining(question.names)])
      // The command accepts the named flag.
      const { out: help } = await mote.run([...words.filter(word => !word.startsWith('-')), '--help'], { cwd })
      for (const [flag] of question.names.matchAll(/--[a-z-]+/g)) expect(help).toContain(flag)
    },
  )
})
