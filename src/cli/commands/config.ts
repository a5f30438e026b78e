/** Commands that check and show `mote.toml`, the file of an app, and compare it with the installation. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Command } from 'commander'
import { appFileName } from '../../appfile/name.ts'
import { AppFileInvalid } from '../../appfile/toml.ts'
import { appFlag, appOf } from '../folder.ts'
import { out } from '../terminal.ts'
import { type Verb, verb } from '../verb.ts'

export const configCommands = (): Command => {
  const config = new Command('config').description(`The app as a file: ${appFileName}`)
  for (const command of [validate(), show(), verb(diff), verb(pull), schema()]) config.addCommand(command)
  return config
}

const validate = () =>
  new Command('validate')
    .description('Check mote.toml without a server; exits with 1 if it has a fault')
    .argument('[file]', 'the file', appFileName)
    .option('--json', 'print the result as JSON')
    .action(async (file: string, flags: { json?: boolean }) => {
      const { parseAppFile } = await import('../../appfile/parse.ts')
      const text = await readFile(resolve(file), 'utf8').catch((cause: unknown) => {
        throw new Error(`${file} cannot be read. mote launch and mote config pull write one.`, { cause })
      })
      try {
        const { app } = parseAppFile(text, file)
        out(flags.json ? '{"valid":true,"faults":[]}\n' : `${file} is valid. It describes the app ${app}.\n`)
      } catch (cause) {
        if (!(cause instanceof AppFileInvalid)) throw cause
        out(flags.json ? `${JSON.stringify({ valid: false, faults: cause.faults })}\n` : `${cause.message}\n`)
        process.exitCode = 1
      }
    })

const schema = () =>
  new Command('schema').description('Print the JSON Schema of mote.toml, for editors').action(async () => {
    const { AppFile } = await import('../../appfile/schema.ts')
    out(`${JSON.stringify(AppFile, null, 2)}\n`)
  })

const show = () =>
  new Command('show')
    .description('Show mote.toml with all defaults, without a server')
    .option('--json', 'print the result as JSON')
    .action(async (flags: { json?: boolean }) => {
      const { requiredFile } = await import('../app-file.ts')
      const { effectiveText } = await import('../../appfile/write.ts')
      const file = await requiredFile({})
      out(flags.json ? `${JSON.stringify(file)}\n` : effectiveText(file))
    })

const diff: Verb = {
  usage: 'diff',
  says: 'Show what mote deploy would change; exits with 1 if there are changes',
  async run(call) {
    const { requiredFile } = await import('../app-file.ts')
    const { planFile } = await import('../deploy-file.ts')
    const { isEmpty, planText } = await import('../../appfile/plan.ts')
    const { plan } = await planFile(call, await requiredFile({}))
    return { json: plan, text: planText(plan), code: isEmpty(plan) ? 0 : 1 }
  },
}

const pull: Verb = {
  usage: 'pull',
  says: 'Write the settings of the app into mote.toml',
  options: [appFlag],
  example: 'mote config pull --app web',
  async run(call) {
    const { pullFile } = await import('../pull-file.ts')
    return pullFile(call, await appOf(call))
  },
}
