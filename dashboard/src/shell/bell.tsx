import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { Bell } from 'lucide-react'
import { api } from '../api/client.ts'
import { queries, queryClient } from '../api/queries.ts'
import { attempt } from '../ui/action.tsx'
import { Menu, MenuItem, MenuLabel, MenuLine } from '../ui/menu.tsx'
import { Ago } from '../ui/time.tsx'
import { openNotification } from './open-notification.ts'

export function NotificationBell() {
  const { data } = useQuery(queries.notifications(8, false))
  const navigate = useNavigate()
  const unread = data?.unread_count ?? 0
  const readAll = () =>
    attempt(async () => {
      await api.markAllNotificationsRead()
      await queryClient.invalidateQueries({ queryKey: ['notifications'] })
    })
  return (
    <Menu
      trigger={
        <button
          type="button"
          aria-label={unread > 0 ? `Notifications, ${unread} unread` : 'Notifications'}
          className="relative grid size-8 place-items-center rounded-md text-muted hover:bg-hover hover:text-text"
        >
          <Bell aria-hidden="true" size={17} strokeWidth={1.75} />
          {unread > 0 && (
            <span
              aria-hidden="true"
              className="absolute -top-0.5 -right-0.5 grid h-4 min-w-4 place-items-center rounded-full bg-accent px-1 text-[10px] font-semibold text-white tabular-nums"
            >
              {unread > 99 ? '99+' : unread}
            </span>
          )}
        </button>
      }
    >
      <div className="w-80 max-w-[calc(100vw-2rem)]">
        <MenuLabel>Notifications</MenuLabel>
        {data?.notifications.length === 0 && (
          <p className="px-2 pb-3 text-muted">Nothing yet. Deployments, backups and sign-ins appear here.</p>
        )}
        {data?.notifications.map(notification => (
          <MenuItem key={notification.id} onSelect={() => void openNotification(notification, navigate)}>
            <span
              aria-hidden="true"
              className={`mt-1.5 size-1.5 shrink-0 self-start rounded-full ${notification.is_read ? 'bg-transparent' : 'bg-accent'}`}
            />
            <span className="min-w-0">
              <span className="block truncate font-medium">
                {!notification.is_read && <span className="sr-only">Unread: </span>}
                {notification.title}
              </span>
              <span className="line-clamp-2 text-xs text-muted wrap-anywhere">{notification.body}</span>
              <span className="block text-xs text-faint">
                <Ago at={notification.created_at} />
              </span>
            </span>
          </MenuItem>
        ))}
        <MenuLine />
        <MenuItem
          onSelect={() => void readAll()}
          reason={unread === 0 ? 'There are no unread notifications.' : undefined}
        >
          Mark all as read
        </MenuItem>
        <MenuItem onSelect={() => void navigate({ to: '/notifications' })}>
          <Link to="/notifications" tabIndex={-1}>
            All notifications
          </Link>
        </MenuItem>
      </div>
    </Menu>
  )
}
