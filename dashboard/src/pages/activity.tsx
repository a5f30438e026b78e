import { useQuery } from '@tanstack/react-query'
import { History } from 'lucide-react'
import { useState } from 'react'
import { queries } from '../api/queries.ts'
import { Button, LinkButton } from '../ui/button.tsx'
import { Card } from '../ui/layout.tsx'
import { Empty, Loaded } from '../ui/states.tsx'
import { Ago } from '../ui/time.tsx'

const pageSize = 20
/** Maximum page size of the API; older entries are on the page of the audit log. */
const most = 100

/** Who did what in the project, newest first. */
export function Activity() {
  const [limit, setLimit] = useState(pageSize)
  const activity = useQuery(queries.activity(limit))
  return (
    <Card
      flush
      title="Activity"
      actions={
        <LinkButton look="quiet" size="small" to="/audit">
          Audit log
        </LinkButton>
      }
    >
      <Loaded query={activity}>
        {({ items, total }) =>
          items.length === 0 ? (
            <Empty icon={History} title="Nothing has happened yet" />
          ) : (
            <>
              <ol aria-label="Activity" className="divide-y divide-line">
                {items.map(one => (
                  <li key={one.id} className="flex flex-wrap items-baseline justify-between gap-x-4 px-4 py-2">
                    <span className="min-w-0 wrap-anywhere">
                      <span className="font-medium">{one.actor ?? 'Mote'}</span>{' '}
                      <span className="text-muted">{one.summary}</span>
                    </span>
                    <span className="text-xs text-faint">
                      <Ago at={one.created_at} />
                    </span>
                  </li>
                ))}
              </ol>
              {items.length < Math.min(total, most) && (
                <div className="border-t border-line px-4 py-2 text-center">
                  <Button look="quiet" size="small" onClick={() => setLimit(Math.min(limit + pageSize, most))}>
                    Show more
                  </Button>
                </div>
              )}
            </>
          )
        }
      </Loaded>
    </Card>
  )
}
