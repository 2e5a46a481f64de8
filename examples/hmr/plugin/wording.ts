const unit: string = 'Celsius'

export function wording(city: string, celsius: number): string {
  const degrees = unit === 'Fahrenheit' ? Math.round(celsius * 1.8 + 32) : celsius
  return `${degrees} degrees ${unit} in ${city}`
}
