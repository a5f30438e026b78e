import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Check, KeyRound, LogOut, Monitor, Moon, ShieldCheck, Sun, UserRound } from 'lucide-react'
import { api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { signOut } from '../api/session.ts'
import { useStore } from '../api/store.ts'
import { Menu, MenuItem, MenuLabel, MenuLine } from '../ui/menu.tsx'
import { chooseTheme, type Theme, theme } from './theme.ts'

const themes = [
  { value: 'system', name: 'System', icon: Monitor },
  { value: 'light', name: 'Light', icon: Sun },
  { value: 'dark', name: 'Dark', icon: Moon },
] as const satisfies readonly { readonly value: Theme; readonly name: string; readonly icon: typeof Sun }[]

/** Signs out immediately; the request that revokes the session runs in the background. */
export async function leave(): Promise<void> {
  const refresh_token = signOut()
  if (refresh_token) await api.logout({ body: { refresh_token } }).catch(() => {})
}

export function AccountMenu() {
  const { data: me } = useQuery(queries.me())
  const chosen = useStore(theme)
  const navigate = useNavigate()
  return (
    <Menu
      trigger={
        <button
          type="button"
          aria-label="Account"
          className="grid size-8 place-items-center rounded-full bg-accent-soft text-xs font-semibold text-accent-text hover:brightness-95"
        >
          {(me?.first_name?.[0] ?? me?.email[0] ?? '·').toUpperCase()}
        </button>
      }
    >
      <MenuLabel>{me?.email ?? 'Account'}</MenuLabel>
      <MenuItem onSelect={() => void navigate({ to: '/account' })}>
        <UserRound aria-hidden="true" size={14} /> Profile
      </MenuItem>
      <MenuItem onSelect={() => void navigate({ to: '/account/security' })}>
        <ShieldCheck aria-hidden="true" size={14} /> Security
      </MenuItem>
      <MenuItem onSelect={() => void navigate({ to: '/account/tokens' })}>
        <KeyRound aria-hidden="true" size={14} /> Access tokens
      </MenuItem>
      <MenuLine />
      <MenuLabel>Theme</MenuLabel>
      {themes.map(({ value, name, icon: Icon }) => (
        <MenuItem key={value} onSelect={() => chooseTheme(value)}>
          <Icon aria-hidden="true" size={14} /> {name}
          {chosen === value && <Check aria-label="chosen" size={14} className="ml-auto" />}
        </MenuItem>
      ))}
      <MenuLine />
      <MenuItem onSelect={() => void leave()}>
        <LogOut aria-hidden="true" size={14} /> Sign out
      </MenuItem>
    </Menu>
  )
}
