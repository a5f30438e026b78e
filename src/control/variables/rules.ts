import { invalidField } from '../http/errors.ts'

export const maxEnvNames = 200
/** Maximum total size of an app's variables. The guest reads them from a disk that has room for more than that. */
export const maxEnvBytes = 65_536
export const maxGroups = 50
export const maxGroupsOfApp = 10

/**
 * Checks the name of a variable. Names may have dots and dashes: programs such as Elasticsearch read them, although
 * shells cannot set them.
 * @throws ApiError 400 for other names, and for names that the platform sets itself
 */
export function checkEnvName(name: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/.test(name))
    throw invalidField(
      'name',
      'use letters, digits, underscores, dots and dashes; start with a letter or an underscore',
    )
  if (name === 'PORT') throw invalidField('name', 'PORT is set by the platform; change the port of the app instead')
  return name
}

/**
 * Checks the number and total size of variables. @throws ApiError 400 if an app has too many, including those of its
 * groups
 */
export function checkEnvSize(app: string, { names, bytes }: { readonly names: number; readonly bytes: number }): void {
  if (names > maxEnvNames) throw invalidField('name', `${app} can have at most ${maxEnvNames} variables`)
  if (bytes > maxEnvBytes)
    throw invalidField('value', `the variables of ${app} can have at most ${maxEnvBytes} bytes in total`)
}
