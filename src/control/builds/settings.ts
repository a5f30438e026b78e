/** Build settings of an app: its Dockerfile, and the arguments and variables that the build gets. */
import { type Sql, type Tx, statement } from '../../db/db.ts'
import { ownerOfVariables, variablesOf } from '../base/variables.ts'
import { invalidField } from '../http/errors.ts'

/** Build settings in the form in which the database and the API have them. */
export interface BuildSettings {
  /** Path of the Dockerfile in the source. Empty: the build chooses it from the files in the source. */
  readonly dockerfile: string
  readonly args: Readonly<Record<string, string>>
  /** Names of variables of the app that the build gets as arguments. */
  readonly env: readonly string[]
  /** Names of variables of the app that the build gets as secrets. */
  readonly secrets: readonly string[]
}

export interface BuildSettingsRequest {
  readonly dockerfile?: string | null
  readonly args?: Readonly<Record<string, string>> | null
  readonly env?: readonly string[] | null
  readonly secrets?: readonly string[] | null
}

export const noBuildSettings: BuildSettings = { dockerfile: '', args: {}, env: [], secrets: [] }

export const maxBuildNames = 100
/**
 * Maximum total size of build arguments. Leaves room for a certificate authority and the variables on the configuration
 * disk of the build VM.
 */
const maxArgumentBytes = 32_768
const namePattern = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

/**
 * Checks the build settings of a request. Returns null if all fields are empty.
 * @throws ApiError 400 naming the field
 */
export function buildSettingsOf(request: BuildSettingsRequest): BuildSettings | null {
  const settings: BuildSettings = {
    dockerfile: checkDockerfile(request.dockerfile ?? ''),
    args: request.args ?? {},
    env: request.env ?? [],
    secrets: request.secrets ?? [],
  }
  const named = [
    ...Object.keys(settings.args).map(name => ['args', name] as const),
    ...settings.env.map(name => ['env', name] as const),
    ...settings.secrets.map(name => ['secrets', name] as const),
  ]
  for (const [at, [part, name]] of named.entries()) {
    const field = `build/${part}`
    if (!namePattern.test(name))
      throw invalidField(field, `"${name}" must have letters, digits and underscores, and not start with a digit`)
    const before = named.slice(0, at).find(([, other]) => other === name)
    if (before) throw invalidField(field, `${name} is in build/${before[0]} already; leave one of them out`)
  }
  if (named.length > maxBuildNames) throw invalidField('build', `can have at most ${maxBuildNames} names in total`)
  if (Object.values(settings.args).some(value => value.includes('\0')))
    throw invalidField('build/args', 'must not contain NUL')
  if (Buffer.byteLength(Object.values(settings.args).join('')) > maxArgumentBytes)
    throw invalidField('build/args', `can have at most ${maxArgumentBytes} bytes in total`)
  return settings.dockerfile === '' && named.length === 0 ? null : settings
}

function checkDockerfile(path: string): string {
  const parts = path.split('/')
  const isOdd = parts.some(part => part === '' || part === '.' || part === '..') || /[\0\n\\]/.test(path)
  if (path !== '' && isOdd)
    throw invalidField('build/dockerfile', 'must be a path in the source, such as docker/web.Dockerfile')
  return path
}

const settingsOfApp = statement<{ build: BuildSettings | null }>(
  'builds.settingsOfApp',
  `SELECT build FROM app WHERE id = $1`,
)
const variablesOfApp = statement<{ name: string; isPlain: boolean }>(
  'builds.variablesOfApp',
  `SELECT name, plain AS "isPlain" FROM ${variablesOf(ownerOfVariables('$1'))} every`,
)
const namedValues = statement<{ name: string; value: Buffer }>(
  'builds.namedValues',
  `SELECT name, value FROM deployment_env WHERE deployment_id = $1 AND name = ANY($2::text[])`,
)

/**
 * Checks that the app has all variables that its build settings name.
 * @throws ApiError 400 naming the setting and the variable
 */
export async function assertVariablesExist(tx: Tx, appId: string): Promise<void> {
  const { build } = await tx.one(settingsOfApp, [appId])
  if (!build || build.env.length + build.secrets.length === 0) return
  const known = new Map((await tx.rows(variablesOfApp, [appId])).map(one => [one.name, one]))
  for (const [part, names] of [
    ['env', build.env],
    ['secrets', build.secrets],
  ] as const)
    for (const name of names) {
      const found = known.get(name)
      if (!found)
        throw invalidField(`build/${part}`, `the app has no variable ${name}. Set it, or remove it from the setting`)
      if (part === 'env' && !found.isPlain)
        throw invalidField(
          'build/env',
          `${name} is a secret, and arguments stay in the image. Move it to build/secrets`,
        )
    }
}

/** Returns the named variables with their values at the time of the deployment, encrypted for the purpose `app.env`. */
export const valuesOf = (sql: Sql, deploymentId: string, names: readonly string[]) =>
  sql.rows(namedValues, [deploymentId, names])
