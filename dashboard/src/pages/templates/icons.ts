import {
  Activity,
  ChartColumn,
  Code,
  Database,
  Globe,
  HardDrive,
  LayoutTemplate,
  type LucideIcon,
  MessagesSquare,
  Search,
  ShieldCheck,
  Users,
  Workflow,
} from 'lucide-react'

const icons: Readonly<Record<string, LucideIcon>> = {
  analytics: ChartColumn,
  automation: Workflow,
  collaboration: Users,
  databases: Database,
  development: Code,
  messaging: MessagesSquare,
  monitoring: Activity,
  search: Search,
  security: ShieldCheck,
  storage: HardDrive,
  websites: Globe,
}

export const iconOf = (category: string): LucideIcon => icons[category] ?? LayoutTemplate
