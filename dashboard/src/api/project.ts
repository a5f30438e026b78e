/** The selected project: stored per tab; the last choice is the default for new tabs. */
import { createStore } from './store.ts'

const key = 'mote.project'

/** The project's slug; undefined means the account's default project. */
export const currentProject = createStore<string | undefined>(
  sessionStorage.getItem(key) ?? localStorage.getItem(key) ?? undefined,
)

export function chooseProject(slug: string | undefined): void {
  for (const storage of [sessionStorage, localStorage])
    if (slug === undefined) storage.removeItem(key)
    else storage.setItem(key, slug)
  currentProject.set(slug)
}
