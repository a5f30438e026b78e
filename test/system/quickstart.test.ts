// Not repeated on the distribution's PostgreSQL: this file tests a document and the CLI, not the database.
/** Runs the commands of docs/quickstart.md in their order, as a user who signs in with a password. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { hasProgram } from '../../src/lib/programs.ts'
import { type Cli, cli, type RunOptions } from '../support/cli.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'

vi.setConfig({ testTimeout: 180_000 })

/** Commands of the page that are not run here, with the reason. */
const others: Readonly<Record<string, string>> = {
  'mote image build builder': 'takes minutes; test/tutorials uses its result',
  'mote db connect main': 'needs a real server; test/tutorials runs it',
  'mote registry login': 'needs docker-registry and a container tool',
  'mote doctor': 'cli-machine.test.ts runs it',
  'mote launch --name web --image docker.io/library/nginx:1.27 --port 80':
    'docs/quickstart.md offers it instead of `mote launch`',
}

const down = '\u001b[B'
let system: TestSystem
let user: TestUser
let home = ''
let mote: Cli

beforeAll(async () => {
  system = await testSystem({ agents: 2 })
  user = await system.user()
  home = await mkdtemp(join(tmpdir(), 'mote-quickstart-'))
  await mkdir(join(home, 'web'))
  await writeFile(join(home, 'web', 'index.html'), '<h1>Hello</h1>')
  await writeFile(join(home, 'web', 'key.txt'), 'abc')
  mote = cli({ home, env: { MOTE_URL: system.control.url } })
}, 120_000)
afterAll(async () => {
  await system[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

/** Returns the commands in code blocks and inline code, in the order of the page. */
async function commandsOf(page: string): Promise<string[]> {
  const text = await readFile(page, 'utf8')
  return [...text.matchAll(/^(mote [^\n]+)$|`(mote [^`\n]+)`/gm)].map(match =>
    (match[1] ?? match[2] ?? '').split(/ {2,}#/)[0]!.trim(),
  )
}

/** Input for commands with prompts. For `mote launch` it chooses an image, because the simulated host cannot build. */
const typed = (): Readonly<Record<string, RunOptions['answers']>> => ({
  'mote login': [
    [/E-mail/, user.email],
    [/Password/, user.password],
  ],
  'mote launch': [
    [/Name of the app\?/, 'web'],
    [/What do you want to deploy\?/, down + down],
    [/Which image\?/, 'docker.io/library/nginx:1.27'],
    [/Which port/, '80'],
  ],
})

/** Changes mote.toml, because `mote deploy` makes no new version without a change. */
async function change(cwd: string, round: number): Promise<void> {
  const file = join(cwd, 'mote.toml')
  const text = await readFile(file, 'utf8')
  const line = `ROUND = "${round}"`
  await writeFile(file, /^ROUND = /m.test(text) ? text.replace(/^ROUND = .*$/m, line) : `${text}\n[env]\n${line}\n`)
}

it('every command of the quickstart works in the order of the page', async context => {
  context.skip(!(await hasProgram('script')), 'not installed: script, of bsdutils')
  const cwd = join(home, 'web')
  const commands = (await commandsOf('docs/quickstart.md')).filter(command => others[command] === undefined)
  expect(commands.slice(0, 4)).toEqual(['mote login', 'mote launch --sample', 'mote launch', 'mote open'])
  expect(commands.length).toBeGreaterThan(20)
  for (const [round, command] of commands.entries()) {
    if (command === 'mote deploy') await change(cwd, round)
    const [words = '', file] = command.replace('<project>', user.project).split(' < ')
    const args = words.split(' ').slice(1)
    const answers = typed()[command]
    const { code, out, err } = answers
      ? await mote.onTerminal(args, answers, cwd)
      : await mote.run(args, {
          cwd,
          ...(file ? { input: await readFile(join(cwd, file), 'utf8') } : {}),
          ...(args.includes('-f') ? { interruptAt: /listening/ } : {}),
        })
    expect([command, code], `${out}${err}`).toEqual([command, args.includes('-f') ? 130 : 0])
  }
})
