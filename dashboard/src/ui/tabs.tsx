import { Link, type LinkProps } from '@tanstack/react-router'

export interface Tab extends Pick<LinkProps, 'to' | 'params'> {
  readonly name: string
  readonly exact?: boolean
}

/** Pages beside each other; each has an address of its own. */
export function Tabs({ label, tabs }: { readonly label: string; readonly tabs: readonly Tab[] }) {
  return (
    <nav aria-label={label} className="-mb-px flex gap-1 overflow-x-auto">
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
