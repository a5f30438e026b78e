import type { Project } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import { chooseProject, currentProject } from '../api/project.ts'
import { queries } from '../api/queries.ts'
import { useStore } from '../api/store.ts'

/** The selected project; undefined while loading, or if there is none. */
export function useProject(): Project | undefined {
  const chosen = useStore(currentProject)
  const { data } = useQuery(queries.projects())
  return data?.find(project => project.tenant_id === chosen)
}

/**
 * Selects the oldest project, which was created with the account, if no project is selected or the selected one no
 * longer exists.
 */
export function useSomeProject(): void {
  const chosen = useStore(currentProject)
  const { data } = useQuery(queries.projects())
  useEffect(() => {
    if (!data || data.some(project => project.tenant_id === chosen)) return
    const [oldest] = data.toSorted((a, b) => a.created_at.localeCompare(b.created_at))
    chooseProject(oldest?.tenant_id)
  }, [data, chosen])
}
