import { useQuery } from '@tanstack/react-query'
import { Navigate, useSearch } from '@tanstack/react-router'
import { GitBranch } from 'lucide-react'
import { api } from '../api/client.ts'
import { LinkButton } from '../ui/button.tsx'
import { Page } from '../ui/layout.tsx'
import { Empty, messageOf, Rows } from '../ui/states.tsx'

/**
 * The page to which the code host (such as GitHub) redirects after the user has installed Mote's integration there.
 * Forwards the query parameters to Mote's server, once.
 */
export function Connected() {
  const query = useSearch({ from: '/shell/connected' })
  const bound = useQuery({
    queryKey: ['connected', query],
    queryFn: () => api.scmCallback({ query }),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })
  if (bound.data) return <Navigate to="/apps/new" search={{ source: 'repository' }} replace />
  return (
    <Page title="Connecting repositories">
      {bound.error ? (
        <Empty
          icon={GitBranch}
          title="Could not connect the repositories"
          action={
            <LinkButton to="/apps/new" search={{ source: 'repository' }}>
              Try again
            </LinkButton>
          }
        >
          {messageOf(bound.error)}
        </Empty>
      ) : (
        <Rows />
      )}
    </Page>
  )
}
