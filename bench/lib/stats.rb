# Order statistics: on a machine with other work the mean says nothing.
module Stats
  module_function

  # The q-quantile (0..1), between two values where it falls there; nil of nothing.
  def quantile(values, q)
    return nil if values.empty?

    sorted = values.sort
    at = q * (sorted.size - 1)
    low = sorted[at.floor]
    low + (sorted[at.ceil] - low) * (at - at.floor)
  end

  def median(values) = quantile(values, 0.5)

  # What a row of the table keeps of a series.
  def of(values)
    { "median" => median(values), "q1" => quantile(values, 0.25), "q3" => quantile(values, 0.75),
      "min" => values.min, "n" => values.size, "values" => values.size <= 20 ? values : nil }.compact
  end
end
