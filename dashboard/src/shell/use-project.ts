import type { Project } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import { chooseProject, currentProject } from '../api/project.ts'
import { queries } from '../api/queries.ts'
import { useStore } from '../api/store.ts'

/** The chosen project; undefined while that is not known, or when there is none. */
export function useProject(): Project | undefined {
  const chosen = useStore(currentProject)
  const { data } = useQuery(queries.projects())
  return data?.find(project => project.tenant_id === chosen)
}

/** Chooses the oldest, which came with the account, where none is chosen or the one that was is gone. */
export function useSomeProject(): void {
  const chosen = useStore(currentProject)
  const { data } = useQuery(queries.projects())
  useEffect(() => {
    if (!data || data.some(project => project.tenant_id === chosen)) return
    const [oldest] = data.toSorted((a, b) => a.created_at.localeCompare(b.created_at))
    chooseProject(oldest?.tenant_id)
  }, [data, chosen])
}
