/** Commands for stacks: groups of apps from compose files. */
import { noun, type Verb } from '../verb.ts'

export const composeCommands = () => noun('compose', 'Apps from a compose file', [plan, up, down])

const files: readonly (readonly [string, string])[] = [
  ['-f, --file <path...>', 'compose files; later ones override earlier ones'],
  ['--profile <name...>', 'also use services of these profiles'],
  ['--stack <name>', 'name of the stack; by default that of the file or the folder'],
]
const skip = ['--skip-unsupported', 'omit the parts of the file that Mote does not support'] as const
const prune = ['--prune', 'delete apps of the stack that the file no longer has'] as const

const plan: Verb = {
  usage: 'plan',
  says: 'Show what mote compose up would change, and which parts of the file Mote does not support; exits with 1 if there are any',
  options: [...files, skip, prune],
  example: 'mote compose plan\nmote compose plan -f compose.yaml -f compose.prod.yaml',
  async run(call) {
    const { stackSource } = await import('../compose-files.ts')
    const { stackText } = await import('../compose-state.ts')
    const { planStack } = await import('../../stack/plan.ts')
    const { stackContext } = await import('../stack-context.ts')
    const { jsonOf } = await import('../compose-up.ts')
    const planned = await planStack(stackContext(call), stackSource(call.flags))
    const isImpossible = planned.stack.findings.some(({ level }) => level === 'unsupported')
    const code = isImpossible && call.flags.skipUnsupported !== true ? 1 : 0
    return { json: jsonOf(planned), text: stackText(planned, call.flags.prune === true), code }
  },
}

const up: Verb = {
  usage: 'up',
  says: 'Make the apps of the stack match the compose file, and wait until they are healthy',
  options: [...files, skip, prune, ['-y, --yes', 'apply the plan without asking']],
  example: 'mote compose up --yes',
  async run(call) {
    const { stackSource } = await import('../compose-files.ts')
    const { upStack } = await import('../compose-up.ts')
    return upStack(call, stackSource(call.flags))
  },
}

const down: Verb = {
  usage: 'down',
  says: 'Delete the apps of the stack and keep its volumes',
  options: [
    ...files,
    ['--volumes', 'also delete the volumes of the stack, with their data'],
    ['-y, --yes', 'delete without asking'],
  ],
  example: 'mote compose down --volumes --yes',
  async run(call) {
    const { composeFileIn, stackSource } = await import('../compose-files.ts')
    const { readStack } = await import('../../stack/source.ts')
    const { downStack } = await import('../compose-up.ts')
    const { file, stack: name } = call.flags
    // A stack that was created from a template has no compose file.
    if (typeof name === 'string' && file === undefined && composeFileIn('.') === undefined)
      return downStack(call, name, [])
    // Select all profiles, because services of any profile may be running.
    const stack = await readStack({ ...stackSource(call.flags), profiles: ['*'] })
    const volumes = stack.volumes.filter(({ isExternal }) => !isExternal).map(volume => volume.name)
    return downStack(call, stack.name, volumes)
  },
}
