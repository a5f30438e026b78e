import type { App } from '@mote/client'
import { useSuspenseQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { queries } from '../../api/queries.ts'

/** The app of the current page; the layout around the page has loaded it. */
export function useApp(): App {
  const { app } = useParams({ from: '/shell/apps/$app' })
  return useSuspenseQuery(queries.app(app)).data
}
