/** The project everything happens in: of this tab, and remembered for the next. */
import { createStore } from './store.ts'

const key = 'mote.project'

/** Slug; undefined: the account's default project. */
export const currentProject = createStore<string | undefined>(
  sessionStorage.getItem(key) ?? localStorage.getItem(key) ?? undefined,
)

export function chooseProject(slug: string | undefined): void {
  for (const storage of [sessionStorage, localStorage])
    if (slug === undefined) storage.removeItem(key)
    else storage.setItem(key, slug)
  currentProject.set(slug)
}
