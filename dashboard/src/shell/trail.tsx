/** Breadcrumbs, made from the URL path: most parts of the path are already names. */
import { useQuery } from '@tanstack/react-query'
import { useLocation, useNavigate } from '@tanstack/react-router'
import { queries } from '../api/queries.ts'
import { cx } from '../ui/cx.ts'
import { shortId } from '../ui/format.ts'

export function Trail() {
  const { pathname } = useLocation()
  const nameOf = useNames()
  const parts = pathname.split('/').filter(part => part !== '')
  return (
    <nav aria-label="Breadcrumbs" className="min-w-0 truncate text-muted">
      <ol className="flex min-w-0 items-center gap-1.5">
        {parts.map((part, index) => (
          <li
            key={`${index}${part}`}
            className={cx('min-w-0 items-center gap-1.5', index < parts.length - 1 ? 'hidden sm:flex' : 'flex')}
          >
            {index > 0 && (
              <span aria-hidden="true" className="hidden text-line-strong sm:inline">
                /
              </span>
            )}
            {index === parts.length - 1 || unlinked.has(part) ? (
              <span className={index === parts.length - 1 ? 'truncate text-text' : 'truncate'}>
                {nameOf(part, index)}
              </span>
            ) : (
              <PathLink path={`/${parts.slice(0, index + 1).join('/')}`}>{nameOf(part, index)}</PathLink>
            )}
          </li>
        ))}
      </ol>
    </nav>
  )
}

/** A link to a computed path, which the router's typed links do not accept. */
function PathLink({ path, children }: { readonly path: string; readonly children: string }) {
  const navigate = useNavigate()
  return (
    <a
      href={path}
      className="truncate hover:text-text"
      onClick={event => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return
        event.preventDefault()
        void navigate({ href: path })
      }}
    >
      {children}
    </a>
  )
}

/** Parts of a path that have no page and therefore no link. */
const unlinked = new Set(['projects'])

/** Labels for parts of a path that are not names of resources. */
const words = new Map([
  ...([
    ['1 new', 'New app'],
    ['0 audit', 'Audit log'],
    ['1 ssh-keys', 'SSH keys'],
    ['1 tokens', 'Access tokens'],
  ] as const),
  ...(
    [
      '1 security',
      '1 sessions',
      '2 deployments',
      '2 logs',
      '2 files',
      '2 terminal',
      '2 jobs',
      '2 metrics',
      '2 scale',
      '2 environment',
      '2 network',
    ] as const
  ).map(titled),
  ...(['2 volumes', '2 settings', '2 members'] as const).map(titled),
])

function titled(key: string): [string, string] {
  const word = key.slice(2)
  return [key, word.charAt(0).toUpperCase() + word.slice(1)]
}

const isLongId = (text: string) => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(text)

/** Names for the ids in paths of volumes and databases, available once the page has loaded them. */
function useNames(): (part: string, index: number) => string {
  const volumes = useQuery({ ...queries.volumes(), enabled: false })
  const databases = useQuery({ ...queries.databases(), enabled: false })
  return (part, index) => {
    const text = decodeURIComponent(part)
    const named = [...(volumes.data ?? []), ...(databases.data ?? [])].find(one => one.id === text)
    if (named) return named.name
    if (isLongId(text)) return shortId(text)
    return words.get(`${index} ${text}`) ?? (index === 0 ? text.charAt(0).toUpperCase() + text.slice(1) : text)
  }
}
