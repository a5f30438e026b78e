/** Reads stacks from compose files and templates. */
import { type Files, loadModel } from '../compose/load.ts'
import { labelOf, type Stack, stackOf } from '../compose/stack.ts'
import { type Template, templateAppName } from '../compose/template.ts'

/** App name, hostname and URL of each service of a stack. */
export type Addresses = ReadonlyMap<string, { readonly app: string; readonly host: string; readonly url: string }>

export interface StackSource {
  readonly paths: readonly string[]
  readonly files: Files
  /** Returns the value of an environment variable, which takes precedence over `.env`; undefined if it is not set. */
  readonly environment: (name: string) => string | undefined
  readonly name: string | undefined
  /** Name of the folder, which is the name of the stack if no option, variable or file names it. */
  readonly folder: string
  readonly profiles: readonly string[]
  readonly appName?: (service: string) => string
  /** Command with which the user repeats the deployment. */
  readonly again: string
}

/**
 * Reads the stack. In its files, MOTE_APP_<SERVICE>, MOTE_HOST_<SERVICE> and MOTE_URL_<SERVICE> contain the addresses
 * of its apps.
 */
export async function readStack(source: StackSource, addresses: Addresses = new Map()): Promise<Stack> {
  const known = new Map<string, string>(
    [...addresses].flatMap(([service, { app, host, url }]) => {
      const name = service.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')
      return [
        [`MOTE_APP_${name}`, app],
        [`MOTE_HOST_${name}`, host],
        [`MOTE_URL_${name}`, url],
      ] as const
    }),
  )
  const environment = (name: string) => known.get(name) ?? source.environment(name)
  const model = await loadModel(source.paths, source.files, environment)
  const name = source.name ?? source.environment('COMPOSE_PROJECT_NAME') ?? model.name ?? source.folder
  const label = labelOf(name)
  if (label === undefined)
    throw new Error(
      `The name of a stack needs a letter from a to z or a digit, but "${name}" has none. Choose a name with --stack.`,
    )
  return stackOf(model, source.files, { name: label, profiles: source.profiles, appName: source.appName })
}

/**
 * Returns the source of a template's stack. Its only variables are the answers, so nothing from the local environment
 * gets into the stack.
 */
export function templateSource(
  { name, compose }: Template,
  stack: string,
  answers: ReadonlyMap<string, string>,
  again: string,
): StackSource {
  const file = `${name}.yaml`
  return {
    paths: [file],
    files: { read: async path => (path === file ? compose : undefined) },
    environment: variable => answers.get(variable),
    name: stack,
    folder: name,
    profiles: [],
    appName: templateAppName(stack),
    again,
  }
}
