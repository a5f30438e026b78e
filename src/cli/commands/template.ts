/** Commands to list templates and deploy apps from them. */
import { listing } from '../output.ts'
import { type Call, noun, said, text, type Verb } from '../verb.ts'
import type { Template } from '../../compose/template.ts'

export const templateCommands = () =>
  noun('templates', 'Ready-made apps: databases, websites, tools', [list, show, deploy])

const catalogFlag = ['--catalog <url>', 'https URL of another catalog of templates'] as const

const list: Verb = {
  usage: 'list',
  says: 'List templates by name',
  aliases: ['ls'],
  options: [catalogFlag],
  async run({ flags }) {
    const { templates } = await import('../template-catalog.ts')
    const all = await templates(text(flags, 'catalog'))
    const rows = all.map(one => [one.name, one.category, one.description])
    return said(
      all.map(one => ({ ...one, compose: undefined })),
      listing(['TEMPLATE', 'CATEGORY', 'DESCRIPTION'], rows, 'The catalog is empty.'),
    )
  },
}

const show: Verb = {
  usage: 'show <template>',
  says: 'Print the compose file of a template',
  options: [catalogFlag],
  example: 'mote templates show wordpress > compose.yaml',
  async run({ args: [name = ''], flags }) {
    const { templateOf } = await import('../template-catalog.ts')
    const template = await templateOf(name, text(flags, 'catalog'))
    return said(template, template.compose.trimEnd())
  },
}

const deploy: Verb = {
  usage: 'deploy <template>',
  says: 'Create the apps of a template as a stack, and wait until they are healthy',
  options: [
    catalogFlag,
    ['--name <name>', 'name of the stack and of its main app; by default that of the template'],
    ['--set <NAME=value...>', 'answers to the questions of the template; by default, passwords are generated'],
    ['-y, --yes', 'deploy without asking'],
  ],
  example: 'mote templates deploy wordpress --name blog --yes',
  async run(call) {
    const { templateOf } = await import('../template-catalog.ts')
    const { appsOf } = await import('../../stack/plan.ts')
    const { templateSource } = await import('../../stack/source.ts')
    const { upStack } = await import('../compose-up.ts')
    const template = await templateOf(call.args[0] ?? '', text(call.flags, 'catalog'))
    const name = text(call.flags, 'name') ?? template.name
    if ((await appsOf(call.client)).some(app => app.stack === name))
      throw new Error(
        `The stack ${name} exists. Choose another name with --name, or delete it: mote compose down --stack ${name}`,
      )
    const { answers, generated } = await answersOf(call, template)
    const source = templateSource(template, name, answers, `mote templates deploy ${template.name}`)
    const note = ['Generated, and not shown again:', ...generated.map(([key, value]) => `  ${key}  ${value}`)].join(
      '\n',
    )
    const answer = await upStack(call, source).catch((cause: unknown) => {
      // Print the generated passwords even if the command failed: apps may already use them, and the next attempt
      // generates others.
      if (generated.length > 0) call.terminal.line(note)
      throw cause
    })
    if (generated.length === 0) return answer
    return {
      ...answer,
      json: { stack: name, generated: Object.fromEntries(generated) },
      text: `${answer.text}\n${note}`,
    }
  },
}

async function answersOf({ flags }: Call, { questions }: Template) {
  const { passwordOf } = await import('../../compose/template.ts')
  const { ask } = await import('../ask.ts')
  const { randomBytes } = await import('node:crypto')
  const given = new Map((Array.isArray(flags.set) ? flags.set.map(String) : []).map(pairOf))
  for (const key of given.keys())
    if (!questions.some(({ name }) => name === key))
      throw new Error(
        `The template does not ask for ${key}. It asks for: ${questions.map(one => one.name).join(', ') || 'nothing'}`,
      )
  const answers = new Map<string, string>()
  const generated: (readonly [string, string])[] = []
  for (const { name, ask: question, generate, fallback } of questions) {
    const answer = given.get(name)
    if (answer !== undefined) answers.set(name, answer)
    else if (generate !== undefined) {
      const password = passwordOf(randomBytes(generate), generate)
      answers.set(name, password)
      generated.push([name, password])
    } else answers.set(name, await ask(question, `--set ${name}=...`, fallback))
  }
  return { answers, generated }
}

function pairOf(given: string): readonly [string, string] {
  const at = given.indexOf('=')
  if (at < 1) throw new Error(`--set ${given} must be NAME=value.`)
  return [given.slice(0, at), given.slice(at + 1)]
}
