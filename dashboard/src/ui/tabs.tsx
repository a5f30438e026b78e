import { Link, type LinkProps, useLocation } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'

export interface Tab extends Pick<LinkProps, 'to' | 'params'> {
  readonly name: string
  readonly exact?: boolean
}

/** How much of the previous tab stays visible after scrolling to the current one. */
const edgePx = 40

/** Tabs, each of which is a page with its own route. */
export function Tabs({ label, tabs }: { readonly label: string; readonly tabs: readonly Tab[] }) {
  const bar = useRef<HTMLElement>(null)
  const { pathname } = useLocation()
  // On a narrow screen, scroll to the current tab, which may be out of view.
  useEffect(() => {
    const current = bar.current?.querySelector<HTMLElement>('[aria-current=page]')
    if (bar.current && current) bar.current.scrollLeft = current.offsetLeft - bar.current.offsetLeft - edgePx
  }, [pathname])
  return (
    <nav ref={bar} aria-label={label} className="-mb-px flex gap-1 overflow-x-auto">
      {tabs.map(({ name, exact = false, ...link }) => (
        <Link
          key={name}
          {...link}
          activeOptions={{ exact }}
          className="flex h-9 items-center border-b-2 border-transparent px-2.5 font-medium whitespace-nowrap text-muted hover:text-text aria-[current=page]:border-accent aria-[current=page]:text-text"
        >
          {name}
        </Link>
      ))}
    </nav>
  )
}
