import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Bell, CheckCheck } from 'lucide-react'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { queries, queryClient } from '../api/queries.ts'
import { openNotification } from '../shell/open-notification.ts'
import { ActionButton } from '../ui/action.tsx'
import { Button } from '../ui/button.tsx'
import { cx } from '../ui/cx.ts'
import { useFilter } from '../ui/filter.tsx'
import { plural } from '../ui/format.ts'
import { Card, Page } from '../ui/layout.tsx'
import { Empty, Loaded } from '../ui/states.tsx'
import { Ago } from '../ui/time.tsx'
import { Toggle } from '../ui/toggle.tsx'
import { toneOf } from '../shell/events.ts'

const pageSize = 25
/** Maximum number of notifications that the API returns at once. */
const most = 100

const dots = { good: 'bg-good', bad: 'bg-bad', info: 'bg-info' } as const

export function Notifications() {
  const [limit, setLimit] = useState(pageSize)
  const filter = useFilter('notifications', ['unread'])
  const isUnreadOnly = filter.of('unread') === 'only'
  const notifications = useQuery(queries.notifications(limit, isUnreadOnly))
  const navigate = useNavigate()
  const unread = notifications.data?.unread_count ?? 0
  return (
    <Page
      title="Notifications"
      lead={unread > 0 ? `${plural(unread, 'unread notification')}.` : 'No unread notifications.'}
      actions={
        <ActionButton
          reason={unread === 0 ? 'There are no unread notifications.' : undefined}
          act={async () => {
            await api.markAllNotificationsRead()
            await queryClient.invalidateQueries({ queryKey: ['notifications'] })
          }}
        >
          <CheckCheck aria-hidden="true" size={14} /> Mark all as read
        </ActionButton>
      }
    >
      <div className="mb-4 w-48">
        <Toggle
          label="Only unread"
          checked={isUnreadOnly}
          onChange={only => filter.set('unread', only ? 'only' : '')}
        />
      </div>
      <Card flush>
        <Loaded query={notifications}>
          {({ notifications: all, has_more }) =>
            all.length === 0 ? (
              <Empty icon={Bell} title={isUnreadOnly ? 'Nothing unread' : 'Nothing yet'}>
                Successful and failed deployments, backups, sign-ins from new places and payment problems appear here.
              </Empty>
            ) : (
              <>
                <ul className="divide-y divide-line">
                  {all.map(one => (
                    <li key={one.id}>
                      <button
                        type="button"
                        onClick={() => void openNotification(one, navigate)}
                        className="flex w-full items-start gap-3 px-4 py-3 text-left hover:bg-hover/50"
                      >
                        <span
                          aria-hidden="true"
                          className={cx(
                            'mt-1.5 size-2 shrink-0 rounded-full',
                            one.is_read ? 'bg-line-strong' : dots[toneOf(one.kind)],
                          )}
                        />
                        <span className="min-w-0 flex-1">
                          <span className={cx('block', one.is_read ? 'text-muted' : 'font-semibold')}>
                            {!one.is_read && <span className="sr-only">Unread: </span>}
                            {one.title}
                          </span>
                          <span className="line-clamp-3 whitespace-pre-line text-muted wrap-anywhere">{one.body}</span>
                        </span>
                        <span className="text-xs text-faint">
                          <Ago at={one.created_at} />
                        </span>
                      </button>
                    </li>
                  ))}
                </ul>
                {has_more && limit < most && (
                  <div className="border-t border-line p-3 text-center">
                    <Button look="quiet" onClick={() => setLimit(Math.min(most, limit + pageSize))}>
                      Show more
                    </Button>
                  </div>
                )}
              </>
            )
          }
        </Loaded>
      </Card>
    </Page>
  )
}
