/** Sets variables from the pasted text of a `.env` file. */
import { type EnvEntry, envEntries } from '../../../../src/compose/env-entries.ts'
import { Invalid } from '../../../../src/compose/faults.ts'
import { api } from '../../api/client.ts'

export const envPlaceholder = 'DATABASE_URL="postgres://…"\n# comments and export are fine\nexport LOG_LEVEL=info'

/** Parses the text of a `.env` file. @throws Error naming the invalid lines */
export function variablesIn(text: string): readonly EnvEntry[] {
  try {
    return envEntries(text, 'Line')
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    throw new Error(cause.faults.map(({ at, message }) => `Line ${at.line}: ${message}.`).join('\n'), { cause })
  }
}

/** Sets the variables one after the other, because the server checks the app's limits for each variable. */
export async function setVariables(app_name: string, entries: readonly EnvEntry[], secret: boolean): Promise<void> {
  for (const { name, value } of entries) await api.putAppEnv({ app_name, name, body: { value, secret } })
}
