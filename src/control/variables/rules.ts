import { invalidField } from '../http/errors.ts'

export const maxEnvNames = 200
/** Fits on the disk that the guest reads it from, with room to spare. */
export const maxEnvBytes = 65_536
export const maxGroups = 50
export const maxGroupsOfApp = 10

/**
 * Names may have dots and dashes, which programs such as Elasticsearch read and shells cannot set.
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

/** @throws ApiError 400 if an app has too many variables, those of its groups included */
export function checkEnvSize(app: string, { names, bytes }: { readonly names: number; readonly bytes: number }): void {
  if (names > maxEnvNames) throw invalidField('name', `${app} can have at most ${maxEnvNames} variables`)
  if (bytes > maxEnvBytes)
    throw invalidField('value', `the variables of ${app} can have at most ${maxEnvBytes} bytes in total`)
}
